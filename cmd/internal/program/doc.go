// Package program is what sheafd and sheafperf both are and do at start: a
// version, and the limit on open files raised.
package program
