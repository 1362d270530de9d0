package main_test

// Gearman connections of the tests, and the reference to compare with.
//
// Tests of one thing write packets as text: the type's name, and the arguments
// parted by |, with #7 for the handle of job 7. What is random or large uses
// gearConn.

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A gearType is the type of a packet.
type gearType uint32

const (
	gearCanDo           gearType = 1
	gearCantDo          gearType = 2
	gearPreSleep        gearType = 4
	gearNoop            gearType = 6
	gearSubmitJob       gearType = 7
	gearJobCreated      gearType = 8
	gearNoJob           gearType = 10
	gearJobAssign       gearType = 11
	gearWorkStatus      gearType = 12
	gearWorkComplete    gearType = 13
	gearWorkFail        gearType = 14
	gearGetStatus       gearType = 15
	gearEchoReq         gearType = 16
	gearEchoRes         gearType = 17
	gearSubmitJobBG     gearType = 18
	gearError           gearType = 19
	gearStatusRes       gearType = 20
	gearSubmitJobHigh   gearType = 21
	gearWorkException   gearType = 25
	gearOptionReq       gearType = 26
	gearOptionRes       gearType = 27
	gearWorkData        gearType = 28
	gearWorkWarning     gearType = 29
	gearJobAssignUniq   gearType = 31
	gearSubmitJobHighBG gearType = 32
	gearSubmitJobLow    gearType = 33
	gearSubmitJobLowBG  gearType = 34
	gearSubmitJobEpoch  gearType = 36
	gearSubmitReduce    gearType = 37
	gearSubmitReduceBG  gearType = 38
	gearGrabJobAll      gearType = 39
	gearJobAssignAll    gearType = 40
	gearGetStatusUnique gearType = 41
	gearStatusResUnique gearType = 42
)

const (
	gearHeader = 12
	// gearLargest is larger than any answer to a test.
	gearLargest = 1 << 28
)

// gearNames has the types, and how many arguments each has, the last of which
// may have NULs in it.
var gearNames = map[gearType]struct {
	name string
	args int
}{
	1: {"CAN_DO", 1}, 2: {"CANT_DO", 1}, 3: {"RESET_ABILITIES", 0}, 4: {"PRE_SLEEP", 0}, 6: {"NOOP", 0},
	7: {"SUBMIT_JOB", 3}, 8: {"JOB_CREATED", 1}, 9: {"GRAB_JOB", 0}, 10: {"NO_JOB", 0}, 11: {"JOB_ASSIGN", 3},
	12: {"WORK_STATUS", 3}, 13: {"WORK_COMPLETE", 2}, 14: {"WORK_FAIL", 1}, 15: {"GET_STATUS", 1},
	16: {"ECHO_REQ", 1}, 17: {"ECHO_RES", 1}, 18: {"SUBMIT_JOB_BG", 3}, 19: {"ERROR", 2}, 20: {"STATUS_RES", 5},
	21: {"SUBMIT_JOB_HIGH", 3}, 22: {"SET_CLIENT_ID", 1}, 23: {"CAN_DO_TIMEOUT", 2}, 24: {"ALL_YOURS", 0},
	25: {"WORK_EXCEPTION", 2}, 26: {"OPTION_REQ", 1}, 27: {"OPTION_RES", 1}, 28: {"WORK_DATA", 2},
	29: {"WORK_WARNING", 2}, 30: {"GRAB_JOB_UNIQ", 0}, 31: {"JOB_ASSIGN_UNIQ", 4}, 32: {"SUBMIT_JOB_HIGH_BG", 3},
	33: {"SUBMIT_JOB_LOW", 3}, 34: {"SUBMIT_JOB_LOW_BG", 3}, 35: {"SUBMIT_JOB_SCHED", 8},
	36: {"SUBMIT_JOB_EPOCH", 4}, 37: {"SUBMIT_REDUCE_JOB", 5}, 38: {"SUBMIT_REDUCE_JOB_BACKGROUND", 5}, // with the part that nobody uses
	39: {"GRAB_JOB_ALL", 0}, 40: {"JOB_ASSIGN_ALL", 5}, 41: {"GET_STATUS_UNIQUE", 1}, 42: {"STATUS_RES_UNIQUE", 6},
}

var gearTypes = func() map[string]gearType {
	m := make(map[string]gearType)
	for typ, n := range gearNames {
		m[n.name] = typ
	}
	return m
}()

func (t gearType) String() string {
	if n, ok := gearNames[t]; ok {
		return n.name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// A gearPacket is a packet.
type gearPacket struct {
	typ  gearType
	args []string
}

// String is the text of a packet, as tests write it.
func (p gearPacket) String() string {
	if len(p.args) == 0 {
		return p.typ.String()
	}
	args := slices.Clone(p.args)
	for i, a := range args {
		args[i] = gearHandle.ReplaceAllString(a, "#$1")
	}
	return p.typ.String() + " " + strings.Join(args, "|")
}

// id returns the id of the job whose handle is the first argument; 0 if it is
// none.
func (p gearPacket) id() uint64 {
	if len(p.args) == 0 {
		return 0
	}
	m := gearHandle.FindStringSubmatch(p.args[0])
	if m == nil {
		return 0
	}
	id, _ := strconv.ParseUint(m[1], 10, 64)
	return id
}

var (
	gearHost, _ = os.Hostname()
	gearHandle  = regexp.MustCompile("^H:" + regexp.QuoteMeta(gearHost) + `:(\d+)$`)
)

// gearHandleOf returns the handle of a job.
func gearHandleOf(id uint64) string { return fmt.Sprintf("H:%s:%d", gearHost, id) }

// gearParse is the inverse of String.
func gearParse(text string) gearPacket {
	name, rest, _ := strings.Cut(text, " ")
	typ, ok := gearTypes[name]
	if !ok {
		panic("no packet has the type " + name)
	}
	p := gearPacket{typ: typ}
	if n := gearNames[typ].args; n > 0 {
		p.args = strings.SplitN(rest, "|", n)
	}
	for i, a := range p.args {
		if id, ok := strings.CutPrefix(a, "#"); ok {
			if n, err := strconv.ParseUint(id, 10, 64); err == nil {
				p.args[i] = gearHandleOf(n)
			}
		}
	}
	return p
}

// gearAppend appends a request.
func gearAppend(b []byte, typ gearType, args ...string) []byte {
	data := strings.Join(args, "\x00")
	return append(gearAppendHeader(b, typ, uint32(len(data))), data...)
}

// gearAppendHeader appends the header of a request.
func gearAppendHeader(b []byte, typ gearType, size uint32) []byte {
	b = append(b, "\x00REQ"...)
	for _, n := range [...]uint32{uint32(typ), size} {
		b = append(b, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	return b
}

// gearUint32 is a number of a header.
func gearUint32(b []byte) uint32 {
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

// A gearConn is a connection of one goroutine.
type gearConn struct {
	net.Conn
	in *bufio.Reader
}

func gearDial(addr net.Addr) (*gearConn, error) {
	c, err := net.DialTimeout(addr.Network(), addr.String(), patience)
	if err != nil {
		return nil, err
	}
	return &gearConn{c, bufio.NewReaderSize(c, 16<<10)}, nil
}

// ask sends a request.
func (c *gearConn) ask(typ gearType, args ...string) error {
	c.SetWriteDeadline(time.Now().Add(patience))
	_, err := c.Write(gearAppend(nil, typ, args...))
	return err
}

// packet reads a packet.
func (c *gearConn) packet() (p gearPacket, err error) {
	c.SetReadDeadline(time.Now().Add(patience))
	return c.packetBy()
}

// packetBy reads a packet by the deadline that is set.
func (c *gearConn) packetBy() (p gearPacket, err error) {
	var h [gearHeader]byte
	if _, err := io.ReadFull(c.in, h[:]); err != nil {
		return p, err
	}
	size := gearUint32(h[8:])
	if string(h[:4]) != "\x00RES" || size > gearLargest {
		return p, fmt.Errorf("no answer has the header %q", h)
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(c.in, data); err != nil {
		return p, err
	}
	p.typ = gearType(gearUint32(h[4:]))
	if n := gearNames[p.typ].args; n > 0 {
		p.args = strings.SplitN(string(data), "\x00", n)
	} else if size > 0 {
		return p, fmt.Errorf("%s with arguments: %q", p.typ, data)
	}
	return p, nil
}

// reset ends the connection with a reset instead of an orderly end.
func (c *gearConn) reset() {
	c.Conn.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// A gearClient is a connection that says one thing at a time.
type gearClient struct {
	*gearConn
	t *testing.T
}

func gearClientOf(t *testing.T, addr net.Addr) *gearClient {
	t.Helper()
	c, err := gearDial(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &gearClient{c, t}
}

// send sends a request.
func (c *gearClient) send(text string) {
	c.t.Helper()
	p := gearParse(text)
	if err := c.ask(p.typ, p.args...); err != nil {
		c.t.Fatalf("sending %s: %v", text, err)
	}
}

// next reads a packet.
func (c *gearClient) next() gearPacket {
	c.t.Helper()
	p, err := c.packet()
	if err != nil {
		c.t.Fatal(err)
	}
	return p
}

// gets reads packets, which must be those.
func (c *gearClient) gets(want ...string) {
	c.t.Helper()
	for i, w := range want {
		p, err := c.packet()
		if err != nil {
			c.t.Fatalf("packet %d: %v, want %s", i+1, err, w)
		}
		if got := p.String(); got != w {
			c.t.Fatalf("packet %d: got %q, want %q", i+1, got, w)
		}
	}
}

// says sends a request and reads its answers.
func (c *gearClient) says(request string, answers ...string) {
	c.t.Helper()
	c.send(request)
	c.gets(answers...)
}

// settle waits until the server has served all that was sent. Nothing else is
// said meanwhile.
func (c *gearClient) settle() {
	c.t.Helper()
	c.says("ECHO_REQ settled", "ECHO_RES settled")
}

// works takes the next job, which must be that, when there is one. text is a
// JOB_ASSIGN_UNIQ or JOB_ASSIGN_ALL.
func (c *gearClient) works(text string) {
	c.t.Helper()
	c.send("GRAB_JOB_ALL")
	p := c.next()
	for p.typ == gearNoJob {
		c.says("PRE_SLEEP", "NOOP")
		c.send("GRAB_JOB_ALL")
		p = c.next()
	}
	if got := p.String(); got != text {
		c.t.Fatalf("got %q, want %q", got, text)
	}
}

// admin sends an admin command and returns its answer's line, or, of a table,
// the lines before the dot.
func (c *gearClient) admin(command string, table bool) (lines []string) {
	c.t.Helper()
	if _, err := io.WriteString(c, command+"\n"); err != nil {
		c.t.Fatal(err)
	}
	c.SetReadDeadline(time.Now().Add(patience))
	for {
		line, err := c.in.ReadString('\n')
		if err != nil {
			c.t.Fatalf("%s: %v after %q", command, err, lines)
		}
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if line == "." && table {
			return lines
		}
		lines = append(lines, line)
		if !table {
			return lines
		}
	}
}

// ends reads the end of the connection.
func (c *gearClient) ends() {
	c.t.Helper()
	p, err := c.packet()
	if err == nil {
		c.t.Fatalf("got %s, want the end of the connection", p)
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		c.t.Fatalf("got %v, want the end of the connection", err)
	}
}

// startGearman starts a sheafd that speaks both protocols, each on a free port
// of the loopback interface.
func startGearman(t *testing.T, args ...string) *server {
	t.Helper()
	return start(t, append([]string{"--gearman", "127.0.0.1:0"}, args...)...)
}

// gearman opens a Gearman connection.
func (s *server) gearman() *gearClient {
	s.t.Helper()
	return gearClientOf(s.t, s.gearmanAddr())
}

// gearmanAddr is where the server speaks Gearman.
func (s *server) gearmanAddr() net.Addr {
	s.t.Helper()
	if len(s.addrs) < 2 {
		s.t.Fatalf("no address for Gearman in the log:\n%s", s.log.String())
	}
	return s.addrs[len(s.addrs)-1]
}

// onShards runs a test against servers with one shard and with several.
func onShards(t *testing.T, test func(t *testing.T, s *server)) {
	t.Parallel()
	withShards(t, test, "1", "5")
}

func withShards(t *testing.T, test func(t *testing.T, s *server), shards ...string) {
	for _, n := range shards {
		t.Run("shards="+n, func(t *testing.T) {
			t.Parallel()
			s := startGearman(t, "--shards", n)
			test(t, s)
			s.stop()
		})
	}
}

// gearNeed returns the path of a program. Without it the test is skipped, but in
// CI it fails.
func gearNeed(t *testing.T, program, from string) string {
	t.Helper()
	for _, path := range []string{program, "/usr/sbin/" + program} {
		if path, err := exec.LookPath(path); err == nil {
			return path
		}
	}
	gearMissing(t, fmt.Sprintf("%s is missing; apt-get install %s", program, from))
	return ""
}

// gearMissing ends a test for which something has to be installed.
func gearMissing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// gearmand starts the reference on a free port of the loopback interface, and
// returns its address. It ends with the test.
func gearmand(t *testing.T) net.Addr {
	t.Helper()
	path := gearNeed(t, "gearmand", "gearman-job-server")
	// It cannot be asked which port it has. One that was free a moment ago may
	// be taken by now: then it says so, and ends.
	for range 5 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr()
		l.Close()
		var log output
		cmd := exec.Command(path, "--listen", "127.0.0.1", "--port", strconv.Itoa(addr.(*net.TCPAddr).Port),
			"--log-file", "stderr", "--pid-file", t.TempDir()+"/pid")
		cmd.Stdout, cmd.Stderr = &log, &log
		ended := startBeside(t, cmd)
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
			select {
			case <-ended:
				end = time.Time{}
				continue
			default:
			}
			if c, err := gearDial(addr); err == nil {
				// Whoever listens there is ours only if it answers with our pid.
				fmt.Fprint(c, "getpid\n")
				c.SetReadDeadline(time.Now().Add(patience))
				line, _ := c.in.ReadString('\n')
				c.Close()
				if strings.TrimSpace(line) == fmt.Sprintf("OK %d", cmd.Process.Pid) {
					return addr
				}
			}
		}
		t.Logf("gearmand on %v:\n%s", addr, log.String())
	}
	t.Fatal("gearmand does not start")
	return nil
}
