package shard

import "hash/maphash"

// keyTable finds the job that has a key. It is a map by the keys' hashes, since that
// holds no pointers and 16 bytes a job, where a map by the keys themselves has 32, that
// the collector looks at, and reads each key again whenever it grows.
//
// Clients choose the keys, so the hash has a seed that they do not know.
type keyTable struct {
	byHash map[uint64]jobRef // one of the jobs with that hash of a key
	others map[taskKey]*job  // the jobs for which byHash has no place, if there ever were any
	most   int               // how many byHash had, see removeKey
}

func newKeyTable() keyTable { return keyTable{byHash: make(map[uint64]jobRef)} }

// keySeeds are for texts that are uniques, and for those that are workloads.
var keySeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// hash returns the hash of a key. It is the same for as long as the process runs.
func (s *Shard) hash(key taskKey) uint64 {
	seed := keySeeds[0]
	if key.workload {
		seed = keySeeds[1]
	}
	h := maphash.String(seed, key.text)
	if s.clash {
		h &= 1
	}
	return h
}

func (t *keyTable) len() int { return len(t.byHash) + len(t.others) }

// withKey returns the job of f that has the key, which has that hash; nil if none has.
func (s *Shard) withKey(f *function, key taskKey, hash uint64) *job {
	if j := f.keys.byHash[hash].job(); j != nil {
		if has, _ := s.taskOf(j).keyOf(s.body(j)); has == key {
			return j
		}
	}
	if len(f.keys.others) == 0 {
		return nil
	}
	return f.keys.others[key]
}

// add gives j a key with that hash, which no job has.
func (t *keyTable) add(key taskKey, hash uint64, j *job) {
	if t.byHash[hash] == 0 {
		t.byHash[hash] = j.ref()
		return
	}
	if t.others == nil {
		t.others = make(map[taskKey]*job)
	}
	t.others[key] = j
}

// remove takes the key with that hash from j, which has it.
func (t *keyTable) remove(key taskKey, hash uint64, j *job) {
	if t.byHash[hash] == j.ref() {
		removeKey(&t.byHash, &t.most, hash)
	} else {
		delete(t.others, key)
	}
}
