package main

// The command "sheafd binlog".

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/sheafq/sheaf/binlog"
)

const binlogUsage = `Usage: sheafd binlog dump DIR

Prints the records of the binlog in DIR, one a line: file, offset of the block,
what it is. Nothing is changed and no lock is taken: it works beside a running
server and on a directory that is read-only.

Exit status: 0 if all is well, 3 if damage was found (lines with "damage:"),
1 if DIR could not be read.
`

// errDamaged says that a dump contains damage; the exit status is 3.
var errDamaged = errors.New("damage was found")

// binlogCommand carries out "sheafd binlog" with the arguments behind it.
func binlogCommand(out io.Writer, args []string) error {
	help := func(arg string) bool { return arg == "-h" || arg == "--help" }
	switch {
	case slices.ContainsFunc(args, help):
		_, err := io.WriteString(out, binlogUsage)
		return err
	case len(args) != 2 || args[0] != "dump" || args[1] == "" || args[1][0] == '-':
		return usageError{errors.New("what follows binlog must be dump and a directory")}
	}
	damages, err := binlog.Dump(out, nil, args[1])
	if err == nil && damages > 0 {
		places := "1 place: see the line"
		if damages > 1 {
			places = fmt.Sprintf("%d places: see the lines", damages)
		}
		err = fmt.Errorf(`binlog %s: %w in %s with "damage:"`, args[1], errDamaged, places)
	}
	return err
}
