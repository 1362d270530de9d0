// Package gearman speaks both protocols of a Gearman job server: the binary
// one, in packets, and the text admin protocol, in lines. A connection may mix
// the two: what begins with a NUL is a packet.
//
// A packet is a header of 12 bytes, integers big-endian, and its arguments:
//
//	+---------------+---------------+---------------+ - - - - - - - - - - - -
//	| \0REQ, \0RES  | type          | size          | arg \0 arg \0 … last
//	+---------------+---------------+---------------+ - - - - - - - - - - - -
//	  4 bytes         4 bytes         4 bytes         size bytes
//
// The arguments are parted by a NUL. The last has none behind it, ends where
// the packet does, and is the only one that may contain NULs.
//
// An admin command is a line of words parted by blanks, ended by LF or CR LF.
// Its answer is a line, or a table ended by a line with a dot.
//
// What the running reference, gearmand 1.1.20, does with all of it stands in
// REFERENCE.md beside this file, with what of it is a fault and not followed.
package gearman
