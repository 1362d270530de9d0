package main_test

// Whether each package says what it is for.

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// sources parses the non-test Go files of the module, and calls visit with the
// package directory, as in rank, and the file.
func sources(t *testing.T, mode parser.Mode, visit func(pkg, name string, file *ast.File)) {
	t.Helper()
	const root = "../.."
	files := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && path != root && (name[0] == '.' || name[0] == '_' || name == "testdata" || name == "bin"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, mode|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		pkg, err := filepath.Rel(root, filepath.Dir(path))
		visit(pkg, filepath.Base(path), file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A package's comment is in its doc.go, and nowhere else.
func TestPackagesAreDocumented(t *testing.T) {
	documented := make(map[string]bool)
	sources(t, parser.PackageClauseOnly|parser.ParseComments, func(pkg, name string, file *ast.File) {
		begin := "Package " + file.Name.Name + " "
		if file.Name.Name == "main" {
			begin = "Command " + filepath.Base(pkg) + " "
		}
		switch text := file.Doc.Text(); {
		case name != "doc.go":
			if _, known := documented[pkg]; !known {
				documented[pkg] = false
			}
			if text != "" {
				t.Errorf("%s/%s has a package comment; it belongs into doc.go", pkg, name)
			}
		default:
			documented[pkg] = true
			if !strings.HasPrefix(text, begin) {
				t.Errorf("%s/doc.go does not begin with %q", pkg, begin)
			}
		}
	})
	for pkg, has := range documented {
		if !has {
			t.Errorf("%s has no doc.go", pkg)
		}
	}
	if len(documented) < 5 {
		t.Errorf("only %d packages were seen", len(documented))
	}
}
