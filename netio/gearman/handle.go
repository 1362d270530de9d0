package gearman

// Job handles: H:<hostname>:<id>.

import (
	"bytes"
	"strconv"
)

// maxHandle is the longest handle, in bytes. Clients keep handles in 64 bytes,
// including the NUL of a C string (GEARMAN_JOB_HANDLE_SIZE in libgearman).
const maxHandle = 63

// maxDigits is how many digits an id can have.
const maxDigits = len("18446744073709551615")

// handles converts ids to handles and back. A server has one, which never changes.
type handles struct{ prefix string }

// newHandles returns the handles of a host. A long hostname is cut so that every id
// fits.
func newHandles(hostname string) handles {
	const room = maxHandle - len("H:") - len(":") - maxDigits
	return handles{"H:" + hostname[:min(len(hostname), room)] + ":"}
}

// append appends the handle of the job with that id.
func (h handles) append(b []byte, id uint64) []byte {
	b = append(b, h.prefix...)
	return strconv.AppendUint(b, id, 10)
}

// parse is append's inverse: it fails for anything that append does not produce for
// some id greater than 0.
func (h handles) parse(handle []byte) (id uint64, ok bool) {
	digits, ok := bytes.CutPrefix(handle, []byte(h.prefix))
	if !ok || len(digits) == 0 || len(digits) > maxDigits || digits[0] == '0' {
		return 0, false
	}
	for _, d := range digits {
		d -= '0'
		if d > 9 {
			return 0, false
		}
		next := id*10 + uint64(d)
		if id > (1<<64-1)/10 || next < id*10 {
			return 0, false
		}
		id = next
	}
	return id, true
}
