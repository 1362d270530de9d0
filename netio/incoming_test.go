package netio

// Bodies that come in parts.

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// Whatever the size and the parts, a body comes out as it was sent, followed by its room,
// and no more memory is asked for than it takes, nor before it is of use.
func TestIncoming(t *testing.T) {
	noise := make([]byte, 10*firstGrant)
	rand.NewChaCha8([32]byte{}).Read(noise)
	for _, room := range []int{0, 2} {
		for _, size := range []int{
			1, 2, firstGrant - 3, firstGrant - 2, firstGrant - 1, firstGrant, firstGrant + 1,
			2*firstGrant - 2, 2*firstGrant - 1, 2 * firstGrant, 2*firstGrant + 1, 9*firstGrant + 7,
		} {
			for seed := range uint64(20) {
				const behind = 10 // bytes of the next command
				rnd := rand.New(rand.NewPCG(seed, 0))
				sent := noise[:size+behind] // and not read yet
				b := Incoming{Size: size, Room: room}
				held, came := 0, 0
				hold := func(n int) bool {
					if held += n; n < 1 || held > max(firstGrant, 2*came) {
						t.Fatalf("size %d and %d, seed %d: %d bytes are wanted when %d have come", size, room, seed, held, came)
					}
					return true
				}
				if seed%2 == 0 {
					b.Grow(hold) // early, as beanstalk does
				}
				var in []byte
				for {
					n := rnd.IntN(min(100_000, len(sent)) + 1)
					in, sent = sent[:n], sent[n:]
					came += n
					gap, ok := b.Take(&in, hold)
					if !ok {
						t.Fatal("refused")
					}
					if len(gap) == 0 {
						break
					}
					if len(in) > 0 {
						t.Fatalf("size %d and %d, seed %d: %d bytes are left though there is a gap", size, room, seed, len(in))
					}
					sent = sent[copy(gap, sent):] // as ReadInto does
					came += len(gap)
				}
				if len(b.Data) != size+room || held != size+room || !bytes.Equal(b.Data[:size], noise[:size]) {
					t.Fatalf("size %d and %d, seed %d: got %d bytes for which %d were held", size, room, seed, len(b.Data), held)
				}
				if rest := slices.Concat(in, sent); !bytes.Equal(rest, noise[size:size+behind]) {
					t.Fatalf("size %d and %d, seed %d: %d bytes are left, want %d", size, room, seed, len(rest), behind)
				}
			}
		}
	}
}

// A body for which there is not enough memory can be skipped: what is missing of it is
// known, and what has come is no more than was granted.
func TestIncomingRefused(t *testing.T) {
	const size = 5 * firstGrant
	for grants, come := range []int{0, firstGrant, 2 * firstGrant, 4 * firstGrant} {
		b := Incoming{Size: size}
		held := 0
		hold := func(n int) bool {
			if grants == 0 {
				return false
			}
			grants, held = grants-1, held+n
			return true
		}
		in := make([]byte, size)
		gap, ok := b.Take(&in, hold)
		if ok || gap != nil {
			t.Fatalf("with %d bytes granted: it is not refused", come)
		}
		if held != come || len(b.Data) != come || b.Missing() != size-come || len(in) != size-come {
			t.Errorf("with %d bytes granted: %d are held, %d allocated, %d missing, %d left",
				come, held, len(b.Data), b.Missing(), len(in))
		}
	}
}
