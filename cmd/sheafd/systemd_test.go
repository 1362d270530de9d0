package main_test

// The units: systemd understands them, and they fit the server.

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skipf("the units are not checked: %v", err)
	}
	dir := t.TempDir()
	for _, name := range []string{"sheafd.service", "sheafd.socket"} {
		unit, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		// It checks that the binary is there.
		text := strings.ReplaceAll(string(unit), "/usr/local/bin/sheafd", binary(t))
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	verify := exec.Command(analyze, "verify", "--man=no", filepath.Join(dir, "sheafd.service"), filepath.Join(dir, "sheafd.socket"))
	if out, err := verify.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
