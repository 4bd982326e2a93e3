// Package baseline reads the contract of the version before.
package baseline

import (
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// File is its path in a tree.
const File = "proto/baseline.binpb"

// Read returns the one of a tree.
func Read(tree string) (*descriptorpb.FileDescriptorSet, error) {
	encoded, err := os.ReadFile(filepath.Join(tree, File)) //nolint:gosec // a tree that a test names
	if err != nil {
		return nil, fmt.Errorf("baseline: %w", err)
	}
	set := new(descriptorpb.FileDescriptorSet)
	if err := proto.Unmarshal(encoded, set); err != nil {
		return nil, fmt.Errorf("%s: %w", File, err)
	}
	return set, nil
}

// Files returns what Read does, with references between files resolved.
func Files(tree string) (*protoregistry.Files, error) {
	set, err := Read(tree)
	if err != nil {
		return nil, err
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", File, err)
	}
	return files, nil
}
