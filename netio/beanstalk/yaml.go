package beanstalk

// Replies in YAML: stats, stats-tube, stats-job, and the lists of tubes.

import (
	"slices"
	"strconv"
	"time"

	"github.com/sheafq/sheaf/shard"
)

// serverStats is the answer to stats, its fields in the order of the reply. Each cmd
// counter counts the commands of that name that were served; reserve-job, kick-job and
// quit have none.
type serverStats struct {
	urgent                uint64 // ready jobs with pri < 1024
	ready                 uint64
	reserved              uint64
	delayed               uint64
	buried                uint64
	cmdPut                uint64
	cmdPeek               uint64
	cmdPeekReady          uint64
	cmdPeekDelayed        uint64
	cmdPeekBuried         uint64
	cmdReserve            uint64
	cmdReserveTimeout     uint64
	cmdDelete             uint64
	cmdRelease            uint64
	cmdUse                uint64
	cmdWatch              uint64
	cmdIgnore             uint64
	cmdBury               uint64
	cmdKick               uint64
	cmdTouch              uint64
	cmdStats              uint64
	cmdStatsJob           uint64
	cmdStatsTube          uint64
	cmdListTubes          uint64
	cmdListTubeUsed       uint64
	cmdListTubesWatched   uint64
	cmdPauseTube          uint64
	jobTimeouts           uint64
	totalJobs             uint64
	maxJobSize            uint64 // bytes
	tubes                 uint64
	connections           uint64
	producers             uint64
	workers               uint64
	waiting               uint64
	totalConnections      uint64
	pid                   int
	version               string
	utime                 time.Duration
	stime                 time.Duration
	uptime                int64 // seconds
	binlogOldestIndex     uint64
	binlogCurrentIndex    uint64
	binlogRecordsMigrated uint64
	binlogRecordsWritten  uint64
	binlogMaxSize         uint64 // bytes
	draining              bool
	id                    string // 16 hexadecimal digits, drawn at random at the start
	hostname              string // nodename of uname(2)
	os                    string // version of uname(2)
	platform              string // machine of uname(2)
}

// appendJobStats appends the reply to stats-job.
func appendJobStats(b []byte, s *shard.JobStats) []byte {
	y := begin(b)
	y.uint("id", s.ID)
	y.tube("tube", s.Tube)
	y.plain("state", s.State)
	y.uint("pri", uint64(s.Pri))
	y.int("age", s.Age)
	y.uint("delay", uint64(s.Delay))
	y.uint("ttr", uint64(s.TTR))
	y.int("time-left", s.TimeLeft)
	y.uint("file", s.File)
	y.uint("reserves", uint64(s.Reserves))
	y.uint("timeouts", uint64(s.Timeouts))
	y.uint("releases", uint64(s.Releases))
	y.uint("buries", uint64(s.Buries))
	y.uint("kicks", uint64(s.Kicks))
	return y.end()
}

// appendTubeStats appends the reply to stats-tube.
func appendTubeStats(b []byte, s *shard.TubeStats) []byte {
	y := begin(b)
	y.tube("name", s.Name)
	y.uint("current-jobs-urgent", uint64(s.Urgent))
	y.uint("current-jobs-ready", uint64(s.Ready))
	y.uint("current-jobs-reserved", uint64(s.Reserved))
	y.uint("current-jobs-delayed", uint64(s.Delayed))
	y.uint("current-jobs-buried", uint64(s.Buried))
	y.uint("total-jobs", s.Total)
	y.uint("current-using", uint64(s.Using))
	y.uint("current-watching", uint64(s.Watching))
	y.uint("current-waiting", uint64(s.Waiting))
	y.uint("cmd-delete", s.Deletes)
	y.uint("cmd-pause-tube", s.Pauses)
	y.uint("pause", uint64(s.Pause))
	y.int("pause-time-left", s.PauseLeft)
	return y.end()
}

// appendServerStats appends the reply to stats.
func appendServerStats(b []byte, s *serverStats) []byte {
	y := begin(b)
	y.uint("current-jobs-urgent", s.urgent)
	y.uint("current-jobs-ready", s.ready)
	y.uint("current-jobs-reserved", s.reserved)
	y.uint("current-jobs-delayed", s.delayed)
	y.uint("current-jobs-buried", s.buried)
	y.uint("cmd-put", s.cmdPut)
	y.uint("cmd-peek", s.cmdPeek)
	y.uint("cmd-peek-ready", s.cmdPeekReady)
	y.uint("cmd-peek-delayed", s.cmdPeekDelayed)
	y.uint("cmd-peek-buried", s.cmdPeekBuried)
	y.uint("cmd-reserve", s.cmdReserve)
	y.uint("cmd-reserve-with-timeout", s.cmdReserveTimeout)
	y.uint("cmd-delete", s.cmdDelete)
	y.uint("cmd-release", s.cmdRelease)
	y.uint("cmd-use", s.cmdUse)
	y.uint("cmd-watch", s.cmdWatch)
	y.uint("cmd-ignore", s.cmdIgnore)
	y.uint("cmd-bury", s.cmdBury)
	y.uint("cmd-kick", s.cmdKick)
	y.uint("cmd-touch", s.cmdTouch)
	y.uint("cmd-stats", s.cmdStats)
	y.uint("cmd-stats-job", s.cmdStatsJob)
	y.uint("cmd-stats-tube", s.cmdStatsTube)
	y.uint("cmd-list-tubes", s.cmdListTubes)
	y.uint("cmd-list-tube-used", s.cmdListTubeUsed)
	y.uint("cmd-list-tubes-watched", s.cmdListTubesWatched)
	y.uint("cmd-pause-tube", s.cmdPauseTube)
	y.uint("job-timeouts", s.jobTimeouts)
	y.uint("total-jobs", s.totalJobs)
	y.uint("max-job-size", s.maxJobSize)
	y.uint("current-tubes", s.tubes)
	y.uint("current-connections", s.connections)
	y.uint("current-producers", s.producers)
	y.uint("current-workers", s.workers)
	y.uint("current-waiting", s.waiting)
	y.uint("total-connections", s.totalConnections)
	y.int("pid", int64(s.pid))
	y.quoted("version", s.version)
	y.cpu("rusage-utime", s.utime)
	y.cpu("rusage-stime", s.stime)
	y.int("uptime", s.uptime)
	y.uint("binlog-oldest-index", s.binlogOldestIndex)
	y.uint("binlog-current-index", s.binlogCurrentIndex)
	y.uint("binlog-records-migrated", s.binlogRecordsMigrated)
	y.uint("binlog-records-written", s.binlogRecordsWritten)
	y.uint("binlog-max-size", s.binlogMaxSize)
	y.plain("draining", strconv.FormatBool(s.draining))
	y.plain("id", s.id)
	y.quoted("hostname", s.hostname)
	y.quoted("os", s.os)
	y.quoted("platform", s.platform)
	return y.end()
}

// appendTubes appends the reply to list-tubes and list-tubes-watched, with the names in
// the order given and without quotes.
func appendTubes(b []byte, names []string) []byte {
	y := begin(b)
	for _, name := range names {
		y.b = append(y.b, "- "...)
		y.b = appendTubeName(y.b, name)
		y.b = append(y.b, '\n')
	}
	return y.end()
}

// appendTubeName appends a tube's name. A tube that Gearman has named may have any
// bytes in it; those that beanstalkd does not allow in a name are written as % and two
// hexadecimal digits. % itself is not allowed, so an escaped name cannot be mistaken
// for another tube's. A name that is only too long is left as it is: commands could not
// name its tube by an escaped form either, and escapes would make it longer still.
func appendTubeName(b []byte, name string) []byte {
	const digits = "0123456789ABCDEF"
	for i := range len(name) {
		if c := name[i]; inName[c] && (i > 0 || c != '-') {
			b = append(b, c)
		} else {
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return b
}

// A yaml appends one reply of the form
//
//	OK <bytes>\r\n
//	---\n
//	key: value\n
//	...
//	\r\n
//
// where bytes counts from the dashes to the last \n. Quoted values are not escaped: the
// reference does not do it, and none of them contains anything to escape.
type yaml struct {
	b    []byte
	body int // where in b the dashes are
}

func begin(b []byte) yaml {
	return yaml{b: append(b, "---\n"...), body: len(b)}
}

// end inserts the reply's first line before the body, whose length is known only now,
// and returns the buffer.
func (y *yaml) end() []byte {
	var line [len("OK 18446744073709551615\r\n")]byte
	b := append(y.b, "\r\n"...)
	return slices.Insert(b, y.body, appendOK(line[:0], len(y.b)-y.body)...)
}

func (y *yaml) uint(key string, v uint64) {
	y.key(key)
	y.b = strconv.AppendUint(y.b, v, 10)
	y.b = append(y.b, '\n')
}

func (y *yaml) int(key string, v int64) {
	y.key(key)
	y.b = strconv.AppendInt(y.b, v, 10)
	y.b = append(y.b, '\n')
}

func (y *yaml) plain(key, v string) {
	y.key(key)
	y.b = append(y.b, v...)
	y.b = append(y.b, '\n')
}

// quoted appends a string value as 1.13 does. 1.12 quotes only the version.
func (y *yaml) quoted(key, v string) {
	y.key(key)
	y.b = append(y.b, '"')
	y.b = append(y.b, v...)
	y.b = append(y.b, '"', '\n')
}

// tube appends a tube's name in quotes.
func (y *yaml) tube(key, name string) {
	y.key(key)
	y.b = append(y.b, '"')
	y.b = appendTubeName(y.b, name)
	y.b = append(y.b, '"', '\n')
}

// cpu appends a time as seconds with six decimals.
func (y *yaml) cpu(key string, d time.Duration) {
	us := uint64(d.Microseconds())
	y.key(key)
	y.b = strconv.AppendUint(y.b, us/1e6, 10)
	// A leading 1 preserves the zeros behind it; the point then replaces it.
	at := len(y.b)
	y.b = strconv.AppendUint(y.b, 1e6+us%1e6, 10)
	y.b[at] = '.'
	y.b = append(y.b, '\n')
}

func (y *yaml) key(key string) {
	y.b = append(y.b, key...)
	y.b = append(y.b, ": "...)
}
