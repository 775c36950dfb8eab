package jetlog

import (
	"net"
	"testing"
)

// TestADialerHasOneConnection: the one before is closed when the next one is opened.
func TestADialerHasOneConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 2)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	var d dialer
	first, err := d.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far := <-accepted
	defer far.Close()
	second, err := d.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	defer (<-accepted).Close()
	if _, err := far.Read(make([]byte, 1)); err == nil {
		t.Error("the first connection is open")
	}
	if err := first.Close(); err == nil {
		t.Error("the first connection was not closed at this end")
	}
	l.Close()
	if _, err := d.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("a connection to nobody")
	}
}
