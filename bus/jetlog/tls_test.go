package jetlog_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-run/sluice/bus/jetlog"
)

// certificate writes one that is its own authority, for loopback, and its key.
func certificate(t *testing.T, cert, key string) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "sluice test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &secret.PublicKey, secret)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: text}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTLS: who connects from outside speaks TLS or is not heard; this user's own programs
// know the certificate by what the node tells of it, also after it was changed.
func TestTLS(t *testing.T) {
	users, _ := people(t)
	dir, at := t.TempDir(), t.TempDir()
	cert, key := filepath.Join(at, "cert.pem"), filepath.Join(at, "key.pem")
	certificate(t, cert, key)
	b, srv, err := jetlog.OpenEmbedded(t.Context(), jetlog.ServerConfig{Dir: dir, Port: -1, Users: users, Cert: cert, Key: key}, jetlog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(b.Close(), srv.Close()); err != nil {
			t.Error(err)
		}
	}()
	if !strings.HasPrefix(srv.URL(), "tls://") {
		t.Errorf("the URL is %s", srv.URL())
	}
	find := func() jetlog.Running { t.Helper(); return told(t, dir) }
	for name, o := range map[string][]nats.Option{
		"the machine's authorities": {nats.Secure()},
		"a client that skips TLS":   {nats.TLSHandshakeFirst()},
	} {
		if nc, err := nats.Connect(srv.URL(), append(o, nats.UserInfo("ann", "ann"), nats.NoReconnect())...); err == nil {
			nc.Close()
			t.Errorf("%s: it connects", name)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	dial := func(c jetlog.DialConfig) error {
		t.Helper()
		_, err := jetlog.Dial(ctx, c)
		return err
	}
	first := find()
	mine := strings.Replace(srv.URL(), "tls://", "tls://"+first.Token+"@", 1)
	if err := dial(jetlog.DialConfig{URL: mine, Pin: first.Pin}); err != nil {
		t.Errorf("by its pin: %v", err)
	}
	if err := dial(jetlog.DialConfig{URL: mine, CA: cert}); err != nil {
		t.Errorf("by its authority: %v", err)
	}
	refuses(t, ctx, srv.URL(), mine, cert)
	connectAs(t, srv.URL(), "ann", nats.RootCAs(cert)).always(publish, "sluice.api.ann.whoami")
	certificate(t, cert, key)
	if err := srv.SetUsers(users); err != nil {
		t.Fatal(err)
	}
	second := find()
	if second.Pin == first.Pin {
		t.Error("the pin is that of the certificate before")
	}
	if err := dial(jetlog.DialConfig{URL: mine, Pin: second.Pin}); err != nil {
		t.Errorf("by the new pin: %v", err)
	}
	if err := dial(jetlog.DialConfig{URL: mine, Pin: first.Pin}); err == nil {
		t.Error("by the pin of before")
	}
	if err := os.WriteFile(cert, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := srv.SetUsers(users[:1]); err == nil {
		t.Error("a file that is no certificate is taken")
	}
	if err := dial(jetlog.DialConfig{URL: mine, Pin: second.Pin}); err != nil {
		t.Errorf("after a certificate that was none: %v", err)
	}
}

// refuses checks that each refusal of a server at url is told from the others. mine is its
// address for who may come in.
func refuses(t *testing.T, ctx context.Context, url, mine, cert string) {
	t.Helper()
	for name, c := range map[string]struct {
		dial jetlog.DialConfig
		want jetlog.Refusal
	}{
		"the machine's authorities": {jetlog.DialConfig{URL: mine}, jetlog.NoTrust},
		"a wrong password":          {jetlog.DialConfig{URL: strings.Replace(url, "tls://", "tls://ann:wrong@", 1), CA: cert}, jetlog.BadProof},
		"no password":               {jetlog.DialConfig{URL: url, CA: cert}, jetlog.BadProof},
		"a user of the door":        {jetlog.DialConfig{URL: strings.Replace(url, "tls://", "tls://ann:ann@", 1), CA: cert}, jetlog.NotForTheLog},
		"nobody there":              {jetlog.DialConfig{URL: "nats://127.0.0.1:1"}, jetlog.NotRefused},
	} {
		if _, err := jetlog.Dial(ctx, c.dial); err == nil || jetlog.RefusalOf(err) != c.want {
			t.Errorf("%s: %d of %v, want %d", name, jetlog.RefusalOf(err), err, c.want)
		}
		caller, err := jetlog.DialDoor(c.dial, "ann")
		if err == nil {
			caller.Close()
		}
		if c.want != jetlog.NotForTheLog && jetlog.RefusalOf(err) != c.want || (err == nil) != (c.want == jetlog.NotForTheLog) {
			t.Errorf("%s, at the door: %d of %v, want %d", name, jetlog.RefusalOf(err), err, c.want)
		}
	}
}

// told is what a server that speaks TLS tells in its directory.
func told(t *testing.T, dir string) jetlog.Running {
	t.Helper()
	r, found, err := jetlog.Find(dir)
	if err != nil || !found || len(r.Pin) != 64 {
		t.Fatalf("found %t, pin %q, %v", found, r.Pin, err)
	}
	return r
}

// TestCertificatesAreChecked: a server that could not speak TLS as asked does not start.
func TestCertificatesAreChecked(t *testing.T) {
	at := t.TempDir()
	cert, key, garbage := filepath.Join(at, "cert.pem"), filepath.Join(at, "key.pem"), filepath.Join(at, "garbage.pem")
	certificate(t, cert, key)
	if err := os.WriteFile(garbage, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]jetlog.ServerConfig{
		"no key": {Cert: cert}, "no certificate": {Key: key}, "garbage": {Cert: garbage, Key: key}, "missing": {Cert: cert + "x", Key: key}, "the other way round": {Cert: key, Key: cert},
	} {
		c.Dir = t.TempDir()
		if _, err := jetlog.StartServer(t.Context(), c); err == nil {
			t.Errorf("%s: a server starts with it", name)
		}
	}
}
