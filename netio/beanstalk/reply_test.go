package beanstalk

import (
	"math"
	"testing"
)

func TestReplies(t *testing.T) {
	for _, tt := range []struct {
		got  []byte
		want string
	}{
		{appendInserted(nil, 1), "INSERTED 1\r\n"},
		{appendInserted(nil, math.MaxUint64), "INSERTED 18446744073709551615\r\n"},
		{appendReserved(nil, 12, 0), "RESERVED 12 0\r\n"},
		{appendReserved([]byte("DELETED\r\n"), 12, 65535), "DELETED\r\nRESERVED 12 65535\r\n"},
		{appendFound(nil, 7, 3), "FOUND 7 3\r\n"},
		{appendUsing(nil, "default"), "USING default\r\n"},
		{appendUsing(nil, []byte("t")), "USING t\r\n"},
		{appendWatching(nil, 2), "WATCHING 2\r\n"},
		{appendKicked(nil, 0), "KICKED 0\r\n"},
		{appendOK(nil, 955), "OK 955\r\n"},
	} {
		if string(tt.got) != tt.want {
			t.Errorf("%q, want %q", tt.got, tt.want)
		}
	}
}

func TestRepliesAllocateNothing(t *testing.T) {
	b := make([]byte, 0, 4096)
	tube := []byte("some-tube")
	if n := testing.AllocsPerRun(100, func() {
		b = appendInserted(b[:0], math.MaxUint64)
		b = appendReserved(b, math.MaxUint64, 65535)
		b = appendUsing(b, tube)
		b = appendWatching(b, 3)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Each fixed reply once from the mouth of the reference.
func TestReferenceReplies(t *testing.T) {
	socket := startReference(t)
	for _, tt := range []struct{ in, want string }{
		{"use t\r\n", string(appendUsing(nil, "t"))},
		{"put 0 0 9 1\r\nab\r\n\r\n", replyExpectedCRLF + replyUnknownCommand}, // to the line "\n"
		{"use t\r\nput 0 0 9 3\r\na\r\n\r\n", "USING t\r\nINSERTED 2\r\n"},     // the refused one took 1
		{"peek 2\r\n", string(appendFound(nil, 2, 3)) + "a\r\n\r\n"},
		{"reserve-job 2\r\ntouch 2\r\nrelease 2 0 0\r\n", string(appendReserved(nil, 2, 3)) + "a\r\n\r\n" + replyTouched + replyReleased},
		{"reserve-job 2\r\nbury 2 0\r\nkick-job 2\r\n", string(appendReserved(nil, 2, 3)) + "a\r\n\r\n" + replyBuried + replyKicked},
		{"use t\r\nkick 9\r\n", "USING t\r\n" + string(appendKicked(nil, 0))},
		{"pause-tube t 0\r\n", replyPaused},
		{"watch u\r\nignore default\r\nignore u\r\n", string(appendWatching(nil, 2)) + string(appendWatching(nil, 1)) + replyNotIgnored},
		{"delete 2\r\ndelete 2\r\n", replyDeleted + replyNotFound},
		{"put 0 0 1 1\r\nx\r\nreserve\r\nreserve-with-timeout 5\r\ndelete 3\r\n", "INSERTED 3\r\nRESERVED 3 1\r\nx\r\n" + replyDeadlineSoon + replyDeleted},
		{"reserve-with-timeout 0\r\n", replyTimedOut},
		{"x\r\nput\x00\r\n", replyUnknownCommand + replyBadFormat},
	} {
		if got := ask(t, socket, tt.in); got != tt.want {
			t.Errorf("%q: the reference says %q, want %q", tt.in, got, tt.want)
		}
	}
}
