package perf

// The faults that the ledger finds, and its report on them.

import (
	"bytes"
	"fmt"
	"strings"
)

// A fault is something that a server must never do.
type fault uint8

const (
	lostJob fault = iota
	deliveredTwice
	damagedBody
	wrongJob
	idTwice
	strangeTube
	tooEarly
	wrongOrder
	outOfTurn
	jobNotFound
	falseTimeout
	wrongFunction
	wrongResult
	completedTwice
	numFaults
)

var faultNames = [numFaults]string{
	lostJob:        "lost",
	deliveredTwice: "delivered twice",
	damagedBody:    "bodies damaged",
	wrongJob:       "under the id of another",
	idTwice:        "ids given twice",
	strangeTube:    "from tubes not watched",
	tooEarly:       "before their delay was over",
	wrongOrder:     "before a more urgent job",
	outOfTurn:      "before an older job",
	jobNotFound:    "NOT_FOUND for a job that exists",
	falseTimeout:   "TIMED_OUT while a job was ready",
	wrongFunction:  "under the name of another function",
	wrongResult:    "results wrong",
	completedTwice: "completed twice",
}

// maxExamples bounds the examples in the report on a server that is thoroughly
// broken.
const maxExamples = 20

// fault counts a fault and keeps the first ones as examples.
func (l *ledger) fault(f fault, format string, args ...any) {
	l.faults[f]++
	if len(l.examples) < maxExamples {
		l.examples = append(l.examples, faultNames[f]+": "+fmt.Sprintf(format, args...))
	}
}

// sum returns the number of all faults.
func (l *ledger) sum() (n int64) {
	for _, f := range l.faults {
		n += f
	}
	return n
}

// report returns what was found, as lines of text.
func (l *ledger) report() string {
	var b bytes.Buffer
	deliveries := "deliveries"
	if l.delivered == 1 {
		deliveries = "delivery"
	}
	fmt.Fprintf(&b, "%s put, %s %s, %s deleted", plural(l.put, "job"), count(float64(l.delivered)), deliveries, count(float64(l.deleted)))
	if l.undecided > 0 {
		fmt.Fprintf(&b, " and %s more whose delete had no answer", count(float64(l.undecided)))
	}
	if l.sum() == 0 {
		switch {
		case l.put+l.delivered == 0:
			b.WriteString("; nothing was checked")
		case !l.closed:
			b.WriteString("; whether jobs were lost is not known")
		default:
			b.WriteString("; no job was lost, damaged or mixed up, and none came again except after a release, a kick, its TTR or the end of its connection")
			if l.outlived > 0 {
				fmt.Fprintf(&b, "; %s came again because a TTR was over", count(float64(l.outlived)))
			}
		}
		return b.String()
	}
	for f, n := range l.faults {
		if n > 0 {
			fmt.Fprintf(&b, "; %s: %s", faultNames[f], count(float64(n)))
		}
	}
	b.WriteString("\n  " + strings.Join(l.examples, "\n  "))
	if more := l.sum() - int64(len(l.examples)); more > 0 {
		fmt.Fprintf(&b, "\n  and %s more", count(float64(more)))
	}
	return b.String()
}
