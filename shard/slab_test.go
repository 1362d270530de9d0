package shard

import (
	"bytes"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"unsafe"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// TestSlab: jobs of all sizes come and go; none is ever where another is, each
// keeps what is in it, and memory is taken for those that there are and no more.
func TestSlab(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var s jobStore
		type one struct {
			j    *job
			body []byte
		}
		var there []one
		id, most := uint64(0), 0
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(rt *rapid.T) {
				size := rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(0, Inline+50), rapid.SampledFrom([]int{Inline, Inline + 1, 100_000})).Draw(rt, "size")
				for range rapid.SampledFrom([]int{1, 3, 150}).Draw(rt, "n") {
					id++
					body := bytes.Repeat([]byte{byte(id)}, size)
					j := s.allot(id, body)
					if size <= Inline {
						clear(body)
						body = bytes.Repeat([]byte{byte(id)}, size)
					}
					there = append(there, one{j, body})
				}
				bytes := 0
				for _, o := range there {
					bytes += slotSize(slotFor(len(o.body)))
				}
				most = max(most, bytes)
			},
			"free": func(rt *rapid.T) {
				for range min(len(there), rapid.SampledFrom([]int{1, 3, 400}).Draw(rt, "n")) {
					i := rapid.IntRange(0, len(there)-1).Draw(rt, "i")
					s.free(there[i].j)
					there[i] = there[len(there)-1]
					there = there[:len(there)-1]
				}
			},
			"": func(rt *rapid.T) {
				at := make(map[*job]bool)
				for _, o := range there {
					if at[o.j] || !bytes.Equal(s.body(o.j), o.body) || int(o.j.size) != len(o.body) {
						rt.Fatalf("job %d of %d bytes is not what it was, or in another's place", o.j.id, len(o.body))
					}
					at[o.j] = true
				}
				used := len(s.slab.chunks) - len(s.slab.empty)
				if least := most/(chunkSize-maxSlot) + maxSpare + len(s.slab.room); len(s.slab.chunks) > 2*least {
					rt.Fatalf("%d chunks for at most %d bytes", len(s.slab.chunks), most)
				}
				if len(there) == 0 && used > maxSpare {
					rt.Fatalf("%d chunks are kept for no job", used)
				}
			},
		})
	})
}

// TestSlabGivesMemoryBack: what the jobs of a backlog took is the system's again
// when they are gone, and taken again for others.
func TestSlabGivesMemoryBack(t *testing.T) {
	var s jobStore
	fill := func(size int) {
		var all []*job
		for id := range uint64(100_000) {
			all = append(all, s.allot(id+1, make([]byte, size)))
		}
		if got, want := resident(t, &s.slab), 100_000*slotFor(size); got < want || got > want+want/4 {
			t.Errorf("100,000 jobs of %d bytes have %d bytes of memory, want %d", size, got, want)
		}
		for _, j := range all {
			s.free(j)
		}
		if got := resident(t, &s.slab); got > maxSpare*chunkSize {
			t.Errorf("%d bytes are kept for no job", got)
		}
	}
	fill(130)
	before := len(s.slab.chunks)
	fill(100)
	if now := len(s.slab.chunks); now > before {
		t.Errorf("%d chunks have become %d", before, now)
	}
}

// resident returns how much memory the system has given a slab, in bytes.
func resident(t *testing.T, s *slab) (n int) {
	t.Helper()
	for _, c := range s.chunks {
		pages := make([]byte, chunkSize/4096)
		_, _, err := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&c.memory[0])), chunkSize, uintptr(unsafe.Pointer(&pages[0])))
		if err != 0 {
			t.Fatal(err)
		}
		for _, p := range pages {
			n += int(p&1) * 4096
		}
	}
	return n
}

// TestSlabDoesNotFlap: a job more or less at the end of a chunk costs no system
// call.
func TestSlabDoesNotFlap(t *testing.T) {
	var s jobStore
	var all []*job
	put := func() { all = append(all, s.allot(1, make([]byte, 130))) }
	end := func(i int) {
		s.free(all[i])
		all[i] = all[len(all)-1]
		all = all[:len(all)-1]
	}
	for put(); s.slab.room[slotSize(slotFor(130))/slotStep] != nil; put() {
	}
	for range 100 {
		put()
		end(0)
		end(len(all) - 1)
		put()
		if len(s.slab.chunks) > 2 || len(s.slab.empty) > 0 {
			t.Fatalf("%d chunks, %d of them without memory", len(s.slab.chunks), len(s.slab.empty))
		}
	}
}

// TestNoMemory: where the system has no memory a put says so, and what is there
// goes on.
func TestNoMemory(t *testing.T) { synctest.Test(t, testNoMemory) }

func testNoMemory(t *testing.T) {
	g := newRig(1, NewDirectory(), 0)
	defer g.stop()
	p := g.newPerson()
	ids := p.putAll(1, 1)
	g.look(func(s *Shard) { s.slab.fails = true })
	for _, r := range []*Request{
		{Op: Put, Tube: p.used, TTR: 1, Body: make([]byte, 300)},
		{Op: Submit, Name: "f", Task: &Task{Background: true}, Body: make([]byte, 400)},
	} {
		if p.do(0, *r).Status != OutOfMemory {
			t.Errorf("op %d is not answered OutOfMemory", r.Op)
		}
	}
	if names := p.do(0, Request{Op: Tubes}).Lists.Names; !slices.Equal(names, []string{DefaultTube}) {
		t.Errorf("there are the tubes %q, made for what was refused", names)
	}
	if n := len(p.putAll(3, 1)); n != 3 {
		t.Errorf("%d jobs of a size that there is room for", n)
	}
	p.deleteAll(ids)
	g.look(func(s *Shard) {
		if err := s.check(); err != nil {
			t.Error(err)
		}
		s.slab.fails = false
	})
	if r := p.do(0, Request{Op: Put, Tube: p.used, TTR: 1, Body: make([]byte, 300)}); r.Status != OK {
		t.Errorf("with memory again, a put is answered %d", r.Status)
	}
}

// TestNothingForTheCollector: what there is many times for each job has no pointer
// in it, and a job none but to other jobs.
func TestNothingForTheCollector(t *testing.T) {
	var look func(of reflect.Type, path string)
	look = func(of reflect.Type, path string) {
		switch of.Kind() {
		case reflect.Struct:
			for i := range of.NumField() {
				f := of.Field(i)
				if of.PkgPath() == "sync/atomic" && f.Name == "_" {
					continue
				}
				look(f.Type, path+"."+f.Name)
			}
		case reflect.Array:
			look(of.Elem(), path+"[]")
		case reflect.Pointer:
			if of != reflect.TypeFor[*job]() || path[:4] != "job." {
				t.Errorf("%s is a %v", path, of)
			}
		case reflect.String, reflect.Slice, reflect.Map, reflect.Interface, reflect.Func, reflect.Chan, reflect.UnsafePointer:
			t.Errorf("%s is a %v", path, of)
		}
	}
	for name, of := range map[string]reflect.Type{"job": reflect.TypeFor[job](), "entry": reflect.TypeFor[entry](), "page": reflect.TypeFor[page]()} {
		look(of, name)
	}
	if jobSize%8 != 0 || slotStep%8 != 0 {
		t.Errorf("a job of %d bytes in steps of %d is not aligned", jobSize, slotStep)
	}
}

// TestTable: numbers are used again, and 0 is nobody's.
func TestTable(t *testing.T) {
	var tab table[string]
	a, b := tab.add("a"), tab.add("b")
	tab.remove(a)
	tab.remove(0)
	c := tab.add("c")
	if a == 0 || b == 0 || c != a || tab.at(b) != "b" || tab.at(c) != "c" || tab.at(0) != "" || tab.len() != 2 {
		t.Errorf("a is %d, b %d, c %d in %+v", a, b, c, tab)
	}
}

// TestSlotSizes: there are as many sizes as the slack allows for, none wastes more
// than a ninth, and any body has its place.
func TestSlotSizes(t *testing.T) {
	sizes := make(map[int]bool)
	for body := len("\r\n"); body <= Inline; body++ {
		need := slotFor(body)
		slot := slotSize(need)
		if slot < need || slot > maxSlot || slot-need >= max(slotStep, slot/9+1) || slot%slotStep != 0 {
			t.Errorf("for %d bytes there is a slot of %d", need, slot)
		}
		sizes[slot] = true
	}
	if len(sizes)*chunkSize != slack {
		t.Errorf("there are %d sizes, the slack is %d bytes", len(sizes), slack)
	}
}
