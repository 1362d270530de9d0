package beanstalk

// What all sessions of a server share, and the figures of stats.

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sheafq/sheaf/netio"
	"github.com/sheafq/sheaf/router"
)

// Limits of Config.MaxJobSize, in bytes.
const (
	DefaultMaxJobSize = 65535
	LargestMaxJobSize = 1 << 30
)

// Config says what a Protocol serves.
type Config struct {
	// Router is the engine. It must outlive the sessions.
	Router *router.Router
	// MaxJobSize is the largest body that put accepts, in bytes without its CR LF; at
	// most LargestMaxJobSize.
	MaxJobSize int
	// Version is what stats reports.
	Version string
}

// Protocol makes the sessions of a server that speaks beanstalkd's protocol. It never
// changes after New, so all sessions read it without a lock.
type Protocol struct {
	cfg Config
	// What stats reports about the process.
	started                    time.Time
	id, hostname, os, platform string
}

// New returns a Protocol. The uptime that stats reports begins now.
func New(cfg Config) *Protocol {
	p := &Protocol{cfg: cfg, started: time.Now()}
	var id [8]byte
	rand.Read(id[:]) // never fails
	p.id = hex.EncodeToString(id[:])
	var uts unix.Utsname
	if unix.Uname(&uts) == nil {
		p.hostname = unix.ByteSliceToString(uts.Nodename[:])
		p.os = unix.ByteSliceToString(uts.Version[:])
		p.platform = unix.ByteSliceToString(uts.Machine[:])
	}
	return p
}

// NewSession makes the session of a connection. It is for netio.Config.NewSession.
func (p *Protocol) NewSession(c *netio.Conn) netio.Session { return p.newSession(c) }

// stats returns the answer to stats.
func (p *Protocol) stats(st *router.Stats) *serverStats {
	var usage unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &usage) // fails only for bad arguments
	return &serverStats{
		urgent: uint64(st.Urgent), ready: uint64(st.Ready), reserved: uint64(st.Reserved),
		delayed: uint64(st.Delayed), buried: uint64(st.Buried),
		cmdPut:                st.Counted[opOf[cmdPut]],
		cmdPeek:               st.Counted[opOf[cmdPeek]],
		cmdPeekReady:          st.Counted[opOf[cmdPeekReady]],
		cmdPeekDelayed:        st.Counted[opOf[cmdPeekDelayed]],
		cmdPeekBuried:         st.Counted[opOf[cmdPeekBuried]],
		cmdReserve:            st.Counted[opOf[cmdReserve]],
		cmdReserveTimeout:     st.Counted[opOf[cmdReserveTimeout]],
		cmdDelete:             st.Counted[opOf[cmdDelete]],
		cmdRelease:            st.Counted[opOf[cmdRelease]],
		cmdUse:                st.Counted[opOf[cmdUse]],
		cmdWatch:              st.Counted[opOf[cmdWatch]],
		cmdIgnore:             st.Counted[opOf[cmdIgnore]],
		cmdBury:               st.Counted[opOf[cmdBury]],
		cmdKick:               st.Counted[opOf[cmdKick]],
		cmdTouch:              st.Counted[opOf[cmdTouch]],
		cmdStats:              st.Counted[opOf[cmdStats]],
		cmdStatsJob:           st.Counted[opOf[cmdStatsJob]],
		cmdStatsTube:          st.Counted[opOf[cmdStatsTube]],
		cmdListTubes:          st.Counted[opOf[cmdListTubes]],
		cmdListTubeUsed:       st.Counted[opOf[cmdListTubeUsed]],
		cmdListTubesWatched:   st.Counted[opOf[cmdListTubesWatched]],
		cmdPauseTube:          st.Counted[opOf[cmdPauseTube]],
		jobTimeouts:           st.Timeouts,
		totalJobs:             st.Total,
		maxJobSize:            uint64(p.cfg.MaxJobSize),
		tubes:                 uint64(st.Tubes),
		connections:           uint64(st.Connections),
		producers:             uint64(st.Producers),
		workers:               uint64(st.Workers),
		waiting:               uint64(st.Waiting),
		totalConnections:      uint64(st.TotalConnections),
		pid:                   os.Getpid(),
		version:               p.cfg.Version,
		utime:                 time.Duration(usage.Utime.Nano()),
		stime:                 time.Duration(usage.Stime.Nano()),
		uptime:                int64(time.Since(p.started) / time.Second),
		binlogOldestIndex:     st.Binlog.Oldest,
		binlogCurrentIndex:    st.Binlog.Current,
		binlogRecordsWritten:  st.Binlog.Written,
		binlogRecordsMigrated: st.Binlog.Migrated,
		binlogMaxSize:         uint64(cmp.Or(st.Binlog.MaxSize, defaultBinlogSize)),
		draining:              st.Draining,
		id:                    p.id,
		hostname:              p.hostname,
		os:                    p.os,
		platform:              p.platform,
	}
}

// defaultBinlogSize is the binlog-max-size, in bytes, that the reference reports when it
// has no binlog.
const defaultBinlogSize = 10 << 20
