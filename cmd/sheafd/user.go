package main

// Becoming the user of -u.

import (
	"errors"
	"fmt"
	"math"
	"os/user"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// identity is a user as the kernel knows it.
type identity struct {
	name     string
	uid, gid int
	groups   []int
}

// findUser looks up a user. It is called before any socket is bound, so that a mistake
// leaves nothing behind. A number that is not a user's name is taken for an id. If no
// user has that id, the group's id is the same number: files on a mounted volume may
// belong to such a user.
func findUser(name string) (*identity, error) {
	u, err := user.Lookup(name)
	if id, e := strconv.ParseUint(name, 10, 32); err != nil && e == nil && id < math.MaxUint32 {
		if u, err = user.LookupId(name); err != nil {
			return &identity{name, int(id), int(id), nil}, nil
		}
	}
	if err != nil {
		if errors.As(err, new(user.UnknownUserError)) {
			return nil, fmt.Errorf("becoming user %s: there is no such user; create it or give -u another", name)
		}
		return nil, fmt.Errorf("becoming user %s: %w", name, err)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, fmt.Errorf("becoming user %s: user id %q: %w", name, u.Uid, err)
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nil, fmt.Errorf("becoming user %s: group id %q: %w", name, u.Gid, err)
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("becoming user %s: finding its groups: %w", name, err)
	}
	groups := make([]int, len(ids))
	for i, id := range ids {
		if groups[i], err = strconv.Atoi(id); err != nil {
			return nil, fmt.Errorf("becoming user %s: group id %q: %w", name, id, err)
		}
	}
	return &identity{name, uid, gid, groups}, nil
}

// become drops the process's privileges to those of id, for good.
func (id *identity) become() error {
	// In this order, since each step takes away the right to do the one before. Go
	// applies them to all threads. A process that is that user already, and may not
	// become another, may be given -u too, as with beanstalkd; it keeps the groups that
	// it was started with.
	const hint = "start as root, or leave -u out"
	if err := syscall.Setgroups(id.groups); err != nil && !id.isOurs() {
		return fmt.Errorf("becoming user %s: setting its groups: %w; %s", id.name, err, hint)
	}
	if err := syscall.Setgid(id.gid); err != nil {
		return fmt.Errorf("becoming user %s: setting its group: %w; %s", id.name, err, hint)
	}
	if err := syscall.Setuid(id.uid); err != nil {
		return fmt.Errorf("becoming user %s: %w; %s", id.name, err, hint)
	}
	return nil
}

// isOurs reports whether the process is id already and cannot become another user.
func (id *identity) isOurs() bool {
	uid, euid, suid := unix.Getresuid()
	gid, egid, sgid := unix.Getresgid()
	return id.uid != 0 && uid == id.uid && euid == id.uid && suid == id.uid &&
		gid == id.gid && egid == id.gid && sgid == id.gid
}
