//go:build tools

// Package tools holds the requirements of the binary that tests/live builds.
package tools

import _ "go.etcd.io/etcd/server/v3"
