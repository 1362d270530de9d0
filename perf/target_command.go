package perf

// The command line of --server.

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// ParseServer reads 'NAME=COMMAND ARGUMENT…'. The default name is the program's.
// Words may be quoted as in a shell; no shell is started. The command must have
// {port} in it.
func ParseServer(text string) (*Target, error) {
	name, command := "", strings.TrimSpace(text)
	if i := strings.IndexAny(command, "= \t'\""); i > 0 && command[i] == '=' {
		name, command = command[:i], command[i+1:]
	}
	argv, err := splitWords(command)
	switch {
	case err != nil:
		return nil, fmt.Errorf("server %q: %w", text, err)
	case len(argv) == 0:
		return nil, fmt.Errorf("server %q: there is no command", text)
	case !strings.Contains(command, "{port}"):
		return nil, fmt.Errorf("server %q: the command has no {port}, so the server cannot be told where to listen", text)
	}
	if name == "" {
		name = filepath.Base(argv[0])
	}
	return &Target{Name: name, Command: argv}, nil
}

// splitWords cuts a command line into words, which may be quoted with ', " or \.
func splitWords(line string) (words []string, err error) {
	var word strings.Builder
	in, quote := false, byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case c == '\\' && quote != '\'':
			if i++; i == len(line) {
				return nil, errors.New("the command ends with a backslash")
			}
			word.WriteByte(line[i])
			in = true
		case quote != 0:
			word.WriteByte(c)
		case c == '\'' || c == '"':
			quote, in = c, true
		case c == ' ' || c == '\t' || c == '\n':
			if in {
				words = append(words, word.String())
			}
			word.Reset()
			in = false
		default:
			word.WriteByte(c)
			in = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote %c is not closed", quote)
	}
	if in {
		words = append(words, word.String())
	}
	return words, nil
}
