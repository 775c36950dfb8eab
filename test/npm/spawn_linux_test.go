package npm_test

import (
	"runtime"
	"sync"
	"syscall"
)

// attributes have the kernel end a process with the thread that started it.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

var (
	spawning sync.Once
	spawns   chan func()
)

// spawner starts every process, on a thread that lives as long as the tests do.
func spawner() {
	runtime.LockOSThread()
	for start := range spawns {
		start()
	}
}

// spawn runs start on the spawner's thread: no node outlives the tests, however they end.
func spawn(start func() error) error {
	spawning.Do(func() {
		spawns = make(chan func())
		go spawner()
	})
	started := make(chan error)
	spawns <- func() { started <- start() }
	return <-started
}
