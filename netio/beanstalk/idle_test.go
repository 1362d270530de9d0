package beanstalk

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/sheafq/sheaf/netio"
	"github.com/sheafq/sheaf/router"
)

// Neither an idle client nor one that waits keeps the read buffer alive in which
// its last command came. The pools are emptied all the time, so that each client
// would have one of its own.
func TestIdleClientsHoldNoBuffers(t *testing.T) {
	for _, commands := range []string{
		"use a\r\n",
		"watch a\r\n",
		"use -no-name\r\n",
		"stats-tube default\r\n",
		"pause-tube default 0\r\n",
		"pause-tube -no-name 1\r\n",
		"put 0 0 60 10\r\n0123",
		"reserve\r\n",
		"reserve-with-timeout 1000\r\n",
		"watch a\r\nreserve\r\nwatch b\r\n",
	} {
		t.Run(fmt.Sprintf("%.10q", commands), func(t *testing.T) {
			const clients = 20
			addr := startServer(t, router.Config{Shards: 2})
			before := liveHeap()
			for range clients {
				c, err := net.Dial("tcp", addr)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if _, err := io.WriteString(c, "list-tube-used\r\n"+commands); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(c, make([]byte, len("USING default\r\n"))); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Millisecond) // most have parked then
				liveHeap()
			}
			poll(t, "they hold less than a quarter of a buffer each", func() bool {
				return int64(liveHeap())-int64(before) < clients*netio.ReadSize/4
			})
		})
	}
}
