// Package program has what sheafd and sheafperf have in common: their version, and
// raising the limit on open files at the start.
package program
