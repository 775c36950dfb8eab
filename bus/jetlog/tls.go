package jetlog

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// handshake is how many seconds a client may take for it.
const handshake = 5

// secure has a server speak TLS to whoever connects from outside this process.
func (c ServerConfig) secure(o *server.Options) error {
	switch {
	case (c.Cert == "") != (c.Key == ""):
		return errors.New("a certificate needs its key, and a key its certificate")
	case c.Cert == "":
		return nil
	}
	conf, err := server.GenTLSConfig(&server.TLSConfigOpts{CertFile: c.Cert, KeyFile: c.Key})
	if err != nil {
		return fmt.Errorf("certificate of the NATS server: %w", err)
	}
	o.TLS, o.TLSConfig, o.TLSTimeout = true, conf, handshake
	return nil
}

// pinOf is the pin of the certificate that a server shows; "" where it shows none.
func pinOf(o *server.Options) string {
	if o.TLSConfig == nil || len(o.TLSConfig.Certificates) == 0 {
		return ""
	}
	return pin(o.TLSConfig.Certificates[0].Certificate[0])
}

// pin is the SHA-256 of a certificate's bytes, in hex.
func pin(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// pinned trusts the one certificate with that pin, whatever names it has and whoever has
// signed it: of a server whose own word is known from elsewhere.
func pinned(want string) nats.Option {
	return nats.Secure(&tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // what follows is stricter
		VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
			if len(raw) == 0 || pin(raw[0]) != want {
				return errors.New("the server's certificate is not the one that the node has told of")
			}
			return nil
		},
	})
}
