package keys

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
)

// Certs are the certificate that the door shows, and the authorities whose client
// certificates it believes. They can be read anew while it serves: who is connected stays
// so, and each new connection gets what was read last. It may be used from many
// goroutines at once.
type Certs struct {
	cert, key, ca string
	now           atomic.Pointer[loaded]
}

type loaded struct {
	config *tls.Config
	digest string
}

// LoadCerts reads PEM files: a certificate with what leads to its root, its key, and the
// authorities of clients; ca is "" where no client certificate is asked for.
func LoadCerts(cert, key, ca string) (*Certs, error) {
	c := &Certs{cert: cert, key: key, ca: ca}
	return c, c.Reload()
}

// Reload reads the files anew. With an error what was read before stays.
func (c *Certs) Reload() error {
	if err := CheckFile(c.key); err != nil {
		return fmt.Errorf("the key %w", err)
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return fmt.Errorf("%s and %s: %w", c.cert, c.key, err)
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		// A resumed connection is not verified again: what was read anew would not count for it.
		SessionTicketsDisabled: true,
	}
	if c.ca != "" {
		if config.ClientCAs, err = pool(c.ca); err != nil {
			return err
		}
		config.ClientAuth = tls.VerifyClientCertIfGiven // a token may say who comes, too
	}
	sum := sha256.Sum256(pair.Certificate[0])
	c.now.Store(&loaded{config, hex.EncodeToString(sum[:])})
	return nil
}

// pool reads the certificates of authorities, each of which must be one.
func pool(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out := x509.NewCertPool()
	if !out.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: no certificate of an authority in it, as PEM", path)
	}
	return out, nil
}

// Digest is the SHA-256, in hex, of the certificate that the door shows now.
func (c *Certs) Digest() string { return c.now.Load().digest }

// Config is what a server needs: it asks for the newest certificates itself.
func (c *Certs) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.now.Load().config, nil },
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { // never asked: the other one answers
			return nil, errors.New("no certificate was read")
		},
	}
}
