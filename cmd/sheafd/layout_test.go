package main_test

// The cut of the code into packages holds: who may import whom, and what lies
// at the top of the repository.

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/sheafq/sheaf/"

// rank orders the packages: one imports only from lower ranks. perf talks to
// servers over sockets, so it has no place in the chain.
func rank(pkg string) (n int, known bool) {
	switch {
	case strings.HasPrefix(pkg, "cmd/"):
		return 5, true
	case path.Dir(pkg) == "netio": // the protocols
		return 4, true
	case pkg == "netio":
		return 3, true
	case pkg == "router":
		return 2, true
	case pkg == "shard":
		return 1, true
	case pkg == "binlog", pkg == "binlog/faultfs", pkg == "perf":
		return 0, true
	}
	return 0, false
}

// mayImport says whether the design lets a package import another. Both are
// known.
func mayImport(from, to string) bool {
	a, _ := rank(from)
	b, _ := rank(to)
	switch {
	case from == "binlog/faultfs": // a disk to test with
		return to == "binlog"
	case to == "perf":
		return strings.HasPrefix(from, "cmd/")
	case from == "netio": // carries bytes; knows no command and no engine
		return false
	case path.Dir(to) == "netio", path.Dir(to) == "cmd/internal": // nobody's business but main's
		return strings.HasPrefix(from, "cmd/")
	}
	return a > b && to != "binlog/faultfs"
}

func TestImportsRunOneWay(t *testing.T) {
	list := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	list.Dir = "../.."
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath                         string
			Imports, TestImports, XTestImports []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		from := strings.TrimPrefix(p.ImportPath, module)
		if _, known := rank(from); !known {
			t.Errorf("package %s has no place in the design", from)
			continue
		}
		seen++
		for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			to, ours := strings.CutPrefix(imported, module)
			if !ours || to == from {
				continue
			}
			if to == "binlog/faultfs" && !slices.Contains(p.Imports, imported) {
				continue // any test may
			}
			if _, known := rank(to); known && !mayImport(from, to) {
				t.Errorf("%s imports %s, against the order cmd -> netio/beanstalk -> netio, router -> shard -> binlog", from, to)
			}
		}
	}
	if seen < 5 {
		t.Errorf("only %d packages were seen", seen)
	}
}

// The rule itself, so that the test above is known to be able to fail.
func TestImportRule(t *testing.T) {
	for _, tc := range []struct {
		from, to string
		want     bool
	}{
		{"cmd/sheafd", "netio/beanstalk", true},
		{"cmd/sheafd", "shard", true},
		{"cmd/sheafd", "cmd/internal/program", true},
		{"netio/beanstalk", "cmd/internal/program", false},
		{"cmd/sheafperf", "perf", true},
		{"netio/beanstalk", "netio", true},
		{"netio/beanstalk", "router", true},
		{"netio/beanstalk", "shard", true},
		{"netio/gearman", "netio/beanstalk", false},
		{"netio/beanstalk", "cmd/sheafd", false},
		{"netio", "netio/beanstalk", false},
		{"netio", "router", false},
		{"router", "netio", false},
		{"router", "shard", true},
		{"shard", "router", false},
		{"shard", "binlog", true},
		{"binlog", "shard", false},
		{"binlog", "binlog/faultfs", false},
		{"shard", "binlog/faultfs", false},
		{"binlog/faultfs", "binlog", true},
		{"perf", "router", false},
		{"router", "perf", false},
	} {
		if got := mayImport(tc.from, tc.to); got != tc.want {
			t.Errorf("%s may import %s: %v, want %v", tc.from, tc.to, got, tc.want)
		}
	}
}

func TestTopLevel(t *testing.T) {
	allowed := []string{"cmd", "shard", "netio", "router", "binlog", "perf", "go.mod", "go.sum", "Makefile", "README.md", "LICENSE"}
	for _, name := range topLevel(t) {
		if !strings.HasPrefix(name, ".") && !slices.Contains(allowed, name) {
			t.Errorf("%s is at the top of the repository; only dot files and %v belong there", name, allowed)
		}
	}
}

// topLevel returns what is in the repository, or would be after git add; if git
// cannot tell, what is in its directory, less what .gitignore names.
func topLevel(t *testing.T) (names []string) {
	t.Helper()
	git := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	git.Dir = "../.."
	if out, err := git.Output(); err == nil && len(out) > 0 {
		for file := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			name, _, _ := strings.Cut(file, "/")
			names = append(names, name)
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	entries, err := os.ReadDir("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		switch path.Ext(e.Name()) {
		case ".test", ".prof":
			continue
		}
		if e.Name() != "bin" {
			names = append(names, e.Name())
		}
	}
	return names
}
