package netio

// A body that comes in parts.

// firstGrant is how much memory, in bytes, a body gets on the strength of its announced size alone: enough for any job of the
// default limit, 65535 bytes and a CRLF.
const firstGrant = 64<<10 + 1

// An Incoming is a body whose size was announced, and of which not all has come yet. What is not in the read buffer is read
// straight into Data, the slice that is kept. Data begins with 64 KiB and is doubled, and copied, whenever it is full: so
// beyond the first 64 KiB a peer has to send bytes, and not just announce them, to make the server hold memory.
//
// A session begins a body by setting Size and Room, and sets nothing after that. It calls all methods on the connection's
// goroutine.
type Incoming struct {
	Size   int    // in bytes, of what the peer sends
	Room   int    // in bytes, for what the session writes behind that; the peer does not send it
	Data   []byte // as much as was granted so far: in the end Size and Room bytes
	filled int    // bytes of Data that were taken from the input or left to ReadInto to fill
}

// Take takes what there is of the body from the front of *in, Serve's argument or the rest of it. If the body is not complete
// then, it returns gap: the session has to pass that to ReadInto and return from Serve, and calls Take again when Serve is
// called again. It reports false if hold has refused memory; Missing bytes are still to come then.
func (b *Incoming) Take(in *[]byte, hold func(bytes int) bool) (gap []byte, ok bool) {
	for {
		granted := b.Data[:min(len(b.Data), b.Size)]
		n := copy(granted[b.filled:], *in)
		*in = (*in)[n:]
		gap = granted[b.filled+n:]
		b.filled = len(granted)
		switch {
		case len(gap) > 0 || len(b.Data) == b.Size+b.Room:
			return gap, true
		case !b.Grow(hold):
			return nil, false
		}
	}
}

// Grow allocates the next part of Data if hold, which is asked first, grants so many bytes more. Take does that when Data is
// full; a session may do it once before, so as to know early whether there is memory.
func (b *Incoming) Grow(hold func(bytes int) bool) bool {
	grown := min(max(2*len(b.Data), firstGrant), b.Size+b.Room)
	if !hold(grown - len(b.Data)) {
		return false
	}
	b.Data = append(make([]byte, 0, grown), b.Data...)[:grown]
	return true
}

// Missing returns how many bytes the peer has yet to send when hold has refused memory for them.
func (b *Incoming) Missing() int { return b.Size - b.filled }
