// Package gearman speaks both protocols of a Gearman job server: the binary one, in
// packets, and the text admin protocol, in lines. A connection may mix the two: if the
// next byte is a NUL a packet begins, otherwise a line.
//
// A packet is a header of 12 bytes, integers big-endian, and its arguments:
//
//	+---------------+---------------+---------------+ - - - - - - - - - - - -
//	| \0REQ, \0RES  | type          | size          | arg \0 arg \0 … last
//	+---------------+---------------+---------------+ - - - - - - - - - - - -
//	  4 bytes         4 bytes         4 bytes         size bytes
//
// The arguments are separated by NULs. The last one ends where the packet does, without
// a NUL, and is the only one that may contain NULs.
//
// An admin command is a line of words separated by blanks and ended by LF or CR LF. Its
// answer is a line, or a table ended by a line with a dot.
//
// REFERENCE.md beside this file describes what the running reference, gearmand 1.1.20,
// does, and which of that is a fault that is not followed.
package gearman
