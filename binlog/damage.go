package binlog

import (
	"errors"
	"fmt"
)

// Damage is something in a directory that is not as it was written.
type Damage struct {
	File   string // its name, without the directory
	Offset int64  // in bytes from the beginning of the file
	What   string // is wrong
}

func (d Damage) String() string { return fmt.Sprintf("%s at offset %d: %s", d.File, d.Offset, d.What) }

// ErrLocked says that another server has the directory.
var ErrLocked = errors.New("in use by another server")

var (
	errChecksum = errors.New("its checksum is wrong")
	errSize     = errors.New("it is not as large as it says")
)
