package perf

// The numbers of a load that can be chosen.

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A Config is what a scenario is run with. A field that a scenario has no use
// for is ignored.
type Config struct {
	Connections int `json:"connections,omitempty"` // where all connections do the same
	Producers   int `json:"producers,omitempty"`   // connections that put
	Workers     int `json:"workers,omitempty"`     // connections that wait in reserve
	Depth       int `json:"depth,omitempty"`       // scripts in flight on a connection; of a producer, jobs

	Tubes int `json:"tubes,omitempty"` // connections are dealt out to them in turn
	Watch int `json:"watch,omitempty"` // tubes that a worker watches

	Body      Dist   `json:"body"`                 // bytes
	LeastBody int    `json:"least_body,omitempty"` // the least bytes of a body, whatever Body says: room for the header
	Content   string `json:"content"`
	Priority  Dist   `json:"priority"`
	Delay     Dist   `json:"delay"`            // seconds
	TTR       int    `json:"ttr"`              // seconds
	Unique    int    `json:"unique,omitempty"` // bytes of each Gearman job's unique; 0 for none

	Rate    Rate `json:"rate,omitzero"` // over all connections
	Poisson bool `json:"poisson,omitempty"`

	Jobs   int    `json:"jobs,omitempty"`   // jobs that wait, or are put and taken in a round
	Beside int    `json:"beside,omitempty"` // other tubes, or idle connections
	Sync   string `json:"sync,omitempty"`   // of the server's binlog: milliseconds, never, or SyncAsTold

	WarmUp   time.Duration `json:"warm_up_ns"`
	Duration time.Duration `json:"duration_ns"`
	Grace    time.Duration `json:"grace_ns"`          // how long answers are awaited after the load
	Threads  int           `json:"threads,omitempty"` // of the client; 0 is one for each CPU, or for every second one if the server is on this machine
}

// What bodies are made of.
const (
	ContentText   = "text"   // words, which a server can compress
	ContentRandom = "random" // bytes that nothing can compress
	ContentZero   = "zero"
)

// SyncAsTold is Config.Sync where the load does not decide it: the server runs
// already, or its command has {dir} and so says how its binlog is synced.
const SyncAsTold = "set by the server"

// Validate returns what is wrong with c, in terms of the flags of sheafperf.
func (c *Config) Validate() error {
	var errs []error
	bad := func(when bool, format string, args ...any) {
		if when {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	for _, n := range []struct {
		flag     string
		n, least int
	}{
		{"connections", c.Connections, 0}, {"producers", c.Producers, 0}, {"workers", c.Workers, 0},
		{"depth", c.Depth, 1}, {"tubes", c.Tubes, 1}, {"watch", c.Watch, 1}, {"ttr", c.TTR, 1},
		{"jobs", c.Jobs, 0}, {"beside", c.Beside, 0}, {"threads", c.Threads, 0},
	} {
		bad(n.n < n.least, "--%s %d: must be at least %d", n.flag, n.n, n.least)
	}
	bad(int64(c.TTR) > math.MaxUint32, "--ttr %d: must be below 2^32", c.TTR)
	bad(c.Watch > c.Tubes && c.Tubes > 0, "--watch %d: must be at most --tubes, which is %d", c.Watch, c.Tubes)
	bad(c.Depth > 1<<16, "--depth %d: must be at most %d", c.Depth, 1<<16)
	bad(c.Duration <= 0, "--duration %v: must be more than 0", c.Duration)
	bad(c.WarmUp < 0, "--warm-up %v: must not be negative", c.WarmUp)
	bad(c.Grace <= 0, "--grace %v: must be more than 0", c.Grace)
	bad(c.Unique != 0 && (c.Unique < leastUnique || c.Unique > mostUnique), "--unique %d: must be 0, or from %d to %d", c.Unique, leastUnique, mostUnique)
	if _, most := c.Body.Bounds(); most > maxBody {
		bad(true, "--body %s: the protocol's largest body is 1 GiB", c.Body)
	}
	for _, d := range []struct {
		flag string
		Dist
	}{{"priority", c.Priority}, {"delay", c.Delay}} {
		_, most := d.Bounds()
		bad(most > math.MaxUint32, "--%s %s: must be below 2^32", d.flag, d.Dist)
	}
	if _, err := strconv.ParseUint(c.Sync, 10, 31); err != nil && c.Sync != "" && c.Sync != "never" && c.Sync != SyncAsTold {
		bad(true, "--sync %s: must be a number of milliseconds, or never", c.Sync)
	}
	switch c.Content {
	case ContentText, ContentRandom, ContentZero:
	default:
		bad(true, "--content %q: must be text, random or zero", c.Content)
	}
	return errors.Join(errs...)
}

// Loop describes how commands are timed.
func (c *Config) Loop() string {
	loop := "closed loop"
	switch {
	case c.Rate.jobs > 0:
		loop = fmt.Sprintf("open loop, %s jobs/s", perSecond(c.Rate.jobs))
	case c.Rate.part > 0:
		loop = fmt.Sprintf("closed loop, then an open one at %s of its rate", c.Rate)
		if d := c.openDepth(); d > c.Depth {
			loop += fmt.Sprintf(" with up to %d in flight", d)
		}
	}
	if c.Poisson && c.Rate != (Rate{}) {
		loop += ", Poisson arrivals"
	}
	return loop
}

// openDepthFactor is how many times a closed loop's depth the open loop after it
// may have.
const openDepthFactor = 8

// openDepth is the depth of an open loop. After a closed one it is larger, if
// anything is pipelined at all: jobs that are due shall wait in the server, as if
// many others had sent them, and not here.
func (c *Config) openDepth() int {
	if c.Rate.part > 0 && c.Depth > 1 {
		return openDepthFactor * c.Depth
	}
	return c.Depth
}

// longestDelay is the longest delay that a job can have.
func (c *Config) longestDelay() time.Duration {
	_, seconds := c.Delay.Bounds()
	return time.Duration(seconds) * time.Second
}

// memoryNeeded is roughly how many bytes large bodies take in the client: each
// connection that puts and takes has one on its way out and one on its way in,
// there is the payload that bodies are cut from, and as much again that is not
// collected yet.
func (c *Config) memoryNeeded() int64 {
	const small = 1 << 20 // connections share what they are read into
	_, most := c.Body.Bounds()
	if most <= small {
		return 0
	}
	return 2 * most * int64(2*c.Connections+c.Producers+c.Workers+1)
}

// Describe describes the load in one line.
func (c *Config) Describe() string {
	var parts []string
	say := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if c.Connections > 0 {
		say("%s × %d in flight", plural(c.Connections, "connection"), c.Depth)
	} else {
		say("%s × %d in flight", plural(c.Producers, "producer"), c.Depth)
	}
	if c.Workers > 0 {
		say("%s", plural(c.Workers, "worker"))
	}
	if c.Tubes == 1 {
		say("1 tube")
	} else {
		say("%s, %d watched", plural(c.Tubes, "tube"), c.Watch)
	}
	switch least, most := c.Body.Bounds(); {
	case least >= int64(c.LeastBody):
		say("bodies of %s bytes", c.Body)
	case most <= int64(c.LeastBody): // what is stamped into them is all that they have
		say("bodies of %d bytes, the minimum here", c.LeastBody)
	default:
		say("bodies of %s bytes, but at least %d", c.Body, c.LeastBody)
	}
	if c.Unique > 0 {
		say("uniques of %d", c.Unique)
	}
	if c.longestDelay() > 0 {
		say("delays of %s s", c.Delay)
	}
	if !c.Priority.IsFixed() {
		say("priorities %s", c.Priority)
	}
	if c.Jobs > 0 {
		say("%s jobs", count(float64(c.Jobs)))
	}
	if c.Beside > 0 {
		say("beside %s others", count(float64(c.Beside)))
	}
	if c.Sync != "" {
		say("sync %s", c.Sync)
	}
	return strings.Join(parts, ", ") + "; " + c.Loop()
}

func plural[N int | int64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return count(float64(n)) + " " + what + "s"
}
