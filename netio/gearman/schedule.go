package gearman

// The times of SUBMIT_JOB_SCHED.

import "time"

// anyTime is a field of a schedule that always matches.
const anyTime = -1

// A schedule says when a job is to run, in the server's local time. The job runs once,
// at the next minute at which all fields match; if both weekday and day are given, both
// have to (unlike cron's). Any field may be anyTime.
type schedule struct {
	minute  int8 // 0 to 59
	hour    int8 // 0 to 23
	day     int8 // of the month, 1 to 31
	month   int8 // 1 to 12
	weekday int8 // 0 to 6, 0 is Monday
}

// parseSchedule reads a schedule's fields as they are in the packet: minute, hour, day,
// month, weekday, each a decimal number, or empty or * for any.
func parseSchedule(fields [][]byte) (s schedule, ok bool) {
	limits := [...]struct {
		to       *int8
		min, max int
	}{{&s.minute, 0, 59}, {&s.hour, 0, 23}, {&s.day, 1, 31}, {&s.month, 1, 12}, {&s.weekday, 0, 6}}
	if len(fields) != len(limits) {
		return s, false
	}
	for i, l := range limits {
		*l.to = anyTime
		if f := fields[i]; len(f) > 0 && string(f) != "*" {
			n, ok := smallNumber(f)
			if !ok || n < l.min || n > l.max {
				return s, false
			}
			*l.to = int8(n)
		}
	}
	return s, true
}

// smallNumber reads a decimal number of at most nine digits.
func smallNumber(s []byte) (n int, ok bool) {
	for _, d := range s {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = n*10 + int(d-'0')
	}
	return n, len(s) > 0 && len(s) <= 9
}

// horizon is how many years ahead next looks. A schedule that can match at all does so
// within 40 years. The rarest is 29 February on a given weekday, when a year such as
// 2100, which is no leap year, comes in between.
const horizon = 41

// next returns the first whole minute after now at which s matches the local time in
// loc; ok is false if it never does (31 February). The result is in loc.
//
// When clocks are set back, the same minutes come twice, and both match. When they are
// set forward, some minutes never come. A schedule with an hour that asks for one of
// those runs at the first minute after the gap; otherwise it would run a day late or,
// if it has a full date, never. A schedule without an hour just waits for its minute to
// come.
func (s schedule) next(now time.Time, loc *time.Location) (at time.Time, ok bool) {
	if s.month != anyTime && s.day != anyTime && s.day > longest[s.month] {
		return time.Time{}, false
	}
	now = now.In(loc)
	last := now.AddDate(horizon, 0, 0)
	// Follow the time zone from one change of the clock to the next. Between two changes
	// local time is UTC plus a fixed number of seconds.
	from := now.Add(1)
	for from.Before(last) {
		_, offset := from.Zone()
		_, change := from.ZoneBounds()
		if !change.IsZero() && !change.After(from) {
			// After the last change that the zone's file lists, package time treats all
			// years as having 365 days (Go 1.26): on 31 December of a leap year the bounds
			// it returns are in the past. No clock is changed that day.
			change = from.Add(24 * time.Hour)
		}
		until := last
		if !change.IsZero() && change.Before(last) {
			until = change
		}
		shown := func(t time.Time) time.Time { return t.UTC().Add(time.Duration(offset) * time.Second) }
		if wall, ok := s.search(shown(from), shown(until)); ok {
			return wall.Add(time.Duration(-offset) * time.Second).In(loc), true
		}
		if until.Equal(last) {
			break
		}
		until = until.In(loc)
		if _, after := until.Zone(); after > offset && s.hour != anyTime {
			skipped := time.Duration(after-offset) * time.Second
			if _, ok := s.search(shown(until), shown(until).Add(skipped)); ok {
				return minuteFrom(until), true
			}
		}
		from = until
	}
	return time.Time{}, false
}

// longest is how many days each month can have, by its number.
var longest = [...]int8{0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// minuteFrom returns t if that is a whole minute, else the next whole minute.
func minuteFrom(t time.Time) time.Time {
	part := time.Duration(t.Second())*time.Second + time.Duration(t.Nanosecond())
	if part == 0 {
		return t
	}
	return t.Add(time.Minute - part)
}

// search returns the first whole minute that matches, from from on and before until.
// All three are local times, represented as if they were UTC.
func (s schedule) search(from, until time.Time) (time.Time, bool) {
	for t := minuteFrom(from); t.Before(until); {
		year, month, day := t.Date()
		hour, minute, _ := t.Clock()
		switch {
		case s.month != anyTime && int(s.month) != int(month):
			t = time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
		case s.day != anyTime && int(s.day) != day || s.weekday != anyTime && int(s.weekday) != (int(t.Weekday())+6)%7:
			t = time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
		case s.hour != anyTime && int(s.hour) != hour:
			t = time.Date(year, month, day, hour+1, 0, 0, 0, time.UTC)
		case s.minute != anyTime && int(s.minute) != minute:
			t = t.Add(time.Minute)
		default:
			return t, true
		}
	}
	return time.Time{}, false
}
