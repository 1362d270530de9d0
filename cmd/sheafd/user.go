package main

import (
	"fmt"
	"os/user"
	"strconv"
	"syscall"
)

// become drops the process's privileges to those of a user, for good.
func become(name string) error {
	u, err := user.Lookup(name)
	if err != nil {
		if _, isUnknown := err.(user.UnknownUserError); isUnknown {
			return fmt.Errorf("becoming user %s: there is no such user; create it or give -u another", name)
		}
		return fmt.Errorf("becoming user %s: %w", name, err)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return fmt.Errorf("becoming user %s: user id %q: %w", name, u.Uid, err)
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return fmt.Errorf("becoming user %s: group id %q: %w", name, u.Gid, err)
	}
	ids, err := u.GroupIds()
	if err != nil {
		return fmt.Errorf("becoming user %s: finding its groups: %w", name, err)
	}
	groups := make([]int, len(ids))
	for i, id := range ids {
		if groups[i], err = strconv.Atoi(id); err != nil {
			return fmt.Errorf("becoming user %s: group id %q: %w", name, id, err)
		}
	}
	// In this order: each step takes away the right to do the one before. Go
	// applies them to all threads.
	const hint = "start as root, or leave -u out"
	if err := syscall.Setgroups(groups); err != nil {
		return fmt.Errorf("becoming user %s: setting its groups: %w; %s", name, err, hint)
	}
	if err := syscall.Setgid(gid); err != nil {
		return fmt.Errorf("becoming user %s: setting its group: %w; %s", name, err, hint)
	}
	if err := syscall.Setuid(uid); err != nil {
		return fmt.Errorf("becoming user %s: %w; %s", name, err, hint)
	}
	return nil
}
