package gearman

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones are those that the tables below were made for
)

func fields(s string) [][]byte {
	var all [][]byte
	for _, f := range strings.Split(s, ",") {
		all = append(all, []byte(f))
	}
	return all
}

func mustSchedule(t *testing.T, s string) schedule {
	t.Helper()
	sched, ok := parseSchedule(fields(s))
	if !ok {
		t.Fatalf("%s is no schedule", s)
	}
	return sched
}

func location(t *testing.T, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func TestParseSchedule(t *testing.T) {
	const any = anyTime
	for in, want := range map[string]schedule{
		",,,,":              {any, any, any, any, any},
		"*,*,*,*,*":         {any, any, any, any, any},
		"0,0,1,1,0":         {0, 0, 1, 1, 0},
		"59,23,31,12,6":     {59, 23, 31, 12, 6},
		"05,*,,007,":        {5, any, any, 7, any},
		"000000059,,,,":     {59, any, any, any, any},
		"30,2,31,2,":        {30, 2, 31, 2, any}, // never comes, which is next's to say
		"*,23,,12,*":        {any, 23, any, 12, any},
		"0,000000000,1,1,0": {0, 0, 1, 1, 0},
	} {
		if got, ok := parseSchedule(fields(in)); got != want || !ok {
			t.Errorf("%s: %v %v, want %v", in, got, ok, want)
		}
	}
	for _, in := range []string{
		"60,,,,", ",24,,,", ",,0,,", ",,32,,", ",,,0,", ",,,13,", ",,,,7",
		"-1,,,,", "+1,,,,", " 1,,,,", "1 ,,,,", "x,,,,", "1x,,,,", "**,,,,", "*/5,,,,", "1-2,,,,", "\x00,,,,",
		"4294967296,,,,", "18446744073709551616,,,,", "0000000000,,,,", strings.Repeat("9", 10000) + ",,,,",
		"", "1", "1,2,3,4", "1,2,3,4,5,6",
	} {
		if got, ok := parseSchedule(fields(in)); ok {
			t.Errorf("%.40q: %v", in, got)
		}
	}
}

// The table says "fields / now = next", times in the zone named before.
func TestScheduleNext(t *testing.T) {
	const form = "2006-01-02 15:04:05 -0700"
	for _, c := range []struct{ zone, sched, now, want string }{
		{"UTC", ",,,,", "2026-03-01 10:00:00 +0000", "2026-03-01 10:01:00 +0000"},
		{"UTC", ",,,,", "2026-03-01 10:00:59 +0000", "2026-03-01 10:01:00 +0000"},
		{"UTC", "1,,,,", "2026-03-01 10:00:30 +0000", "2026-03-01 10:01:00 +0000"},
		{"UTC", "0,,,,", "2026-03-01 10:00:00 +0000", "2026-03-01 11:00:00 +0000"}, // strictly after
		{"UTC", "0,10,,,", "2026-03-01 10:00:00 +0000", "2026-03-02 10:00:00 +0000"},
		{"UTC", "0,10,,,", "2026-03-01 09:59:59 +0000", "2026-03-01 10:00:00 +0000"},
		{"UTC", "59,23,31,12,", "2026-12-31 23:59:00 +0000", "2027-12-31 23:59:00 +0000"},
		{"UTC", ",,,1,", "2026-12-31 23:59:30 +0000", "2027-01-01 00:00:00 +0000"},
		{"UTC", ",,,6,", "2026-06-30 23:59:00 +0000", "2027-06-01 00:00:00 +0000"},
		{"UTC", "0,0,31,,", "2026-01-31 00:00:00 +0000", "2026-03-31 00:00:00 +0000"}, // no 31 February
		{"UTC", "0,0,29,2,", "2026-01-01 00:00:00 +0000", "2028-02-29 00:00:00 +0000"},
		{"UTC", "0,0,29,2,", "2096-02-29 00:00:00 +0000", "2104-02-29 00:00:00 +0000"},  // 2100 is no leap year
		{"UTC", "0,0,29,2,4", "2188-02-29 00:00:00 +0000", "2228-02-29 00:00:00 +0000"}, // 40 years
		{"UTC", "0,12,,,0", "2026-03-01 00:00:00 +0000", "2026-03-02 12:00:00 +0000"},   // 1 March 2026 is a Sunday
		{"UTC", "0,12,,,6", "2026-03-01 00:00:00 +0000", "2026-03-01 12:00:00 +0000"},
		{"UTC", "0,12,13,,4", "2026-03-13 12:00:00 +0000", "2026-11-13 12:00:00 +0000"}, // day and weekday: both
		{"UTC", "0,0,30,2,", "2026-03-01 00:00:00 +0000", ""},
		{"UTC", ",,31,2,", "2026-03-01 00:00:00 +0000", ""},
		{"UTC", ",,31,4,", "2026-03-01 00:00:00 +0000", ""},
		{"UTC", ",,31,11,5", "2026-03-01 00:00:00 +0000", ""},

		// Where package time has years of 365 days.
		{"Europe/Berlin", "0,12,31,12,", "2040-12-31 11:00:00 +0100", "2040-12-31 12:00:00 +0100"},
		{"Europe/Berlin", "0,12,31,12,", "2040-12-31 12:00:00 +0100", "2041-12-31 12:00:00 +0100"},
		{"Europe/Berlin", "0,12,,,", "2040-12-31 12:00:00 +0100", "2041-01-01 12:00:00 +0100"},
		{"America/Santiago", "0,12,1,7,", "2044-12-31 12:00:00 -0300", "2045-07-01 12:00:00 -0400"},

		// The server's clock, not the caller's.
		{"Asia/Kathmandu", "45,5,,,", "2026-03-01 00:00:00 +0000", "2026-03-02 05:45:00 +0545"},
		{"Asia/Kathmandu", "46,5,,,", "2026-03-01 00:00:00 +0000", "2026-03-01 05:46:00 +0545"},

		// 2026-03-29 in Berlin has no 2:00 to 2:59.
		{"Europe/Berlin", "30,2,,,", "2026-03-28 12:00:00 +0100", "2026-03-29 03:00:00 +0200"},
		{"Europe/Berlin", "30,2,29,3,", "2026-03-28 12:00:00 +0100", "2026-03-29 03:00:00 +0200"},
		{"Europe/Berlin", ",2,,,", "2026-03-29 01:59:00 +0100", "2026-03-29 03:00:00 +0200"},
		{"Europe/Berlin", "30,2,,,", "2026-03-29 03:00:00 +0200", "2026-03-30 02:30:00 +0200"}, // once a day
		{"Europe/Berlin", "30,,,,", "2026-03-29 01:30:00 +0100", "2026-03-29 03:30:00 +0200"},
		{"Europe/Berlin", ",,,,", "2026-03-29 01:59:00 +0100", "2026-03-29 03:00:00 +0200"},
		{"Europe/Berlin", "0,3,,,", "2026-03-29 01:59:00 +0100", "2026-03-29 03:00:00 +0200"},
		// 2026-10-25 has 2:00 to 2:59 twice.
		{"Europe/Berlin", "30,2,,,", "2026-10-25 00:00:00 +0200", "2026-10-25 02:30:00 +0200"},
		{"Europe/Berlin", "30,2,,,", "2026-10-25 02:30:00 +0200", "2026-10-25 02:30:00 +0100"},
		{"Europe/Berlin", "30,2,,,", "2026-10-25 02:30:00 +0100", "2026-10-26 02:30:00 +0100"},

		// Half an hour is skipped here.
		{"Australia/Lord_Howe", "15,2,4,10,", "2026-10-04 00:00:00 +1030", "2026-10-04 02:30:00 +1100"},
		{"Australia/Lord_Howe", "45,2,4,10,", "2026-10-04 00:00:00 +1030", "2026-10-04 02:45:00 +1100"},
		// And here midnight.
		{"America/Santiago", "0,0,6,9,", "2026-09-05 12:00:00 -0400", "2026-09-06 01:00:00 -0300"},
		{"America/Santiago", ",,6,9,", "2026-09-05 12:00:00 -0400", "2026-09-06 01:00:00 -0300"},
		// And here a day, which did not come again.
		{"Pacific/Apia", "0,12,30,12,", "2011-12-29 13:00:00 -1000", "2011-12-31 00:00:00 +1400"},
		{"Pacific/Apia", "0,,30,12,", "2011-12-29 13:00:00 -1000", "2012-12-30 00:00:00 +1400"},
	} {
		loc := location(t, c.zone)
		now, err := time.Parse(form, c.now)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if at, ok := mustSchedule(t, c.sched).next(now, loc); ok {
			got = at.Format(form)
			if at.Location() != loc {
				t.Errorf("%s is in %s", c.sched, at.Location())
			}
		}
		if got != c.want {
			t.Errorf("%s: %s after %s: %q, want %q", c.zone, c.sched, c.now, got, c.want)
		}
	}
}

// matches tells whether a clock that shows wall (in UTC) shows what s asks for.
func (s schedule) matches(wall time.Time) bool {
	weekday := (wall.Weekday() + 6) % 7
	for _, f := range [][2]int{
		{int(s.minute), wall.Minute()}, {int(s.hour), wall.Hour()}, {int(s.day), wall.Day()},
		{int(s.month), int(wall.Month())}, {int(s.weekday), int(weekday)},
	} {
		if f[0] != anyTime && f[0] != f[1] {
			return false
		}
	}
	return true
}

// slowNext looks at minute after minute, over so many days.
func (s schedule) slowNext(now time.Time, loc *time.Location, days int) (at time.Time, ok bool) {
	wall := func(t time.Time) time.Time {
		_, offset := t.In(loc).Zone()
		return t.UTC().Add(time.Duration(offset) * time.Second)
	}
	first := now.UTC().Truncate(time.Minute).Add(time.Minute)
	for t := first; t.Before(first.AddDate(0, 0, days)); t = t.Add(time.Minute) {
		shows := wall(t)
		if s.matches(shows) {
			return t.In(loc), true
		}
		if t == first || s.hour == anyTime {
			continue // a minute skipped before now is not waited for
		}
		for skipped := wall(t.Add(-time.Minute)).Add(time.Minute); skipped.Before(shows); skipped = skipped.Add(time.Minute) {
			if s.matches(skipped) {
				return t.In(loc), true
			}
		}
	}
	return time.Time{}, false
}

// next finds what looking at every minute finds.
func TestScheduleNextSlowly(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Santiago", "Asia/Beirut", "Africa/Casablanca", "America/St_Johns"}
	runs := 400
	if testing.Short() {
		runs = 50
	}
	for range runs {
		loc := location(t, zones[rng.IntN(len(zones))])
		now := time.Date(2020+rng.IntN(30), time.Month(1+rng.IntN(12)), 1+rng.IntN(31), rng.IntN(24), rng.IntN(60), rng.IntN(60), rng.IntN(1e9), time.UTC)
		if rng.IntN(2) == 0 { // near a change of the clock, where there are any
			if _, end := now.In(loc).ZoneBounds(); !end.IsZero() {
				now = end.Add(time.Duration(rng.IntN(2*26*3600)-26*3600) * time.Second)
			}
		}
		wall := now.In(loc)
		pick := func(one int, others int, likely bool) int8 {
			switch {
			case rng.IntN(2) == 0:
				return anyTime
			case likely && rng.IntN(2) == 0:
				return int8(one)
			}
			return int8(rng.IntN(others))
		}
		s := schedule{
			minute:  pick(wall.Minute(), 60, false),
			hour:    pick((wall.Hour()+rng.IntN(4))%24, 24, true),
			day:     anyTime,
			month:   anyTime,
			weekday: anyTime,
		}
		switch rng.IntN(4) {
		case 0:
			s.day = int8(1 + rng.IntN(31))
		case 1:
			s.weekday = int8(rng.IntN(7))
		case 2:
			s.day, s.month = int8(wall.Day()), int8(wall.Month())
		}
		const days = 35
		want, found := s.slowNext(now, loc, days)
		got, ok := s.next(now, loc)
		if found && (!ok || !got.Equal(want)) || !found && ok && got.Before(now.AddDate(0, 0, days)) {
			t.Fatalf("%v in %s after %s:\n%s %v, slowly\n%s %v", s, loc, wall, got, ok, want, found)
		}
		if ok && (got.Second() != 0 || got.Nanosecond() != 0 || !got.After(now)) {
			t.Fatalf("%v after %s: %s", s, wall, got)
		}
	}
}

// Every day that there can be comes within the horizon, on every weekday.
func TestScheduleHorizon(t *testing.T) {
	for _, start := range []int{2024, 2072, 2096, 2184, 2196} {
		now := time.Date(start, 3, 1, 0, 0, 0, 0, time.UTC)
		for month := int8(1); month <= 12; month++ {
			for day := int8(1); day <= longest[month]; day++ {
				for weekday := range int8(7) {
					s := schedule{minute: 0, hour: 0, day: day, month: month, weekday: weekday}
					want := now.AddDate(0, 0, 1)
					if day < 29 || month != 2 {
						continue // comes often enough
					}
					for !s.matches(want) {
						want = want.AddDate(0, 0, 1)
					}
					if got, ok := s.next(now, time.UTC); !ok || !got.Equal(want) {
						t.Errorf("%v after %s: %s %v, want %s", s, now, got, ok, want)
					}
				}
			}
		}
	}
}

func FuzzSchedule(f *testing.F) {
	f.Add("30", "2", "29", "3", "", int64(1774650000), uint8(1))
	f.Add("*", "", "31", "2", "6", int64(0), uint8(0))
	f.Add("60", "-1", "0", "13", "7", int64(-1), uint8(2))
	zones := []string{"UTC", "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe"}
	f.Fuzz(func(t *testing.T, minute, hour, day, month, weekday string, now int64, zone uint8) {
		s, ok := parseSchedule([][]byte{[]byte(minute), []byte(hour), []byte(day), []byte(month), []byte(weekday)})
		if !ok {
			return
		}
		for _, v := range []struct{ got, min, max int8 }{{s.minute, 0, 59}, {s.hour, 0, 23}, {s.day, 1, 31}, {s.month, 1, 12}, {s.weekday, 0, 6}} {
			if v.got != anyTime && (v.got < v.min || v.got > v.max) {
				t.Fatalf("%v", s)
			}
		}
		from := time.Unix(now%(1<<33), 0)
		loc := location(t, zones[int(zone)%len(zones)])
		at, ok := s.next(from, loc)
		if ok && (!at.After(from) || at.After(from.AddDate(horizon, 0, 2))) {
			t.Fatalf("%v after %s: %s", s, from, at)
		}
		if ok && s.hour == anyTime && !s.matches(time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), 0, 0, time.UTC)) {
			t.Fatalf("%v after %s: %s", s, from, at)
		}
	})
}

func BenchmarkScheduleFarAway(b *testing.B) {
	s := schedule{minute: 0, hour: 0, day: 29, month: 2, weekday: 3}
	loc, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		b.Fatal(err)
	}
	now := time.Date(2072, 3, 1, 0, 0, 0, 0, loc)
	for b.Loop() {
		s.next(now, loc)
	}
}
