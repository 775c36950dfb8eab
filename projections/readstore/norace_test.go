//go:build !race

package readstore

// racing says that the race detector looks: translated C is some ten times slower then.
const racing = false
