// A transfer over QUIC with quic-go. The README of the folder above says what it speaks.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/quic-go/quic-go"
)

const alpn = "hq-interop"

// The bytes of a transfer repeat after this many.
const period = 251

func main() {
	var err error
	switch arguments := os.Args[1:]; {
	case len(arguments) == 4 && arguments[0] == "server":
		err = serve(arguments[1], arguments[2], arguments[3])
	case len(arguments) == 4 && arguments[0] == "client":
		err = fetch(net.JoinHostPort(arguments[1], arguments[2]), arguments[3])
	default:
		err = errors.New("usage: server CERTIFICATE KEY PORT | client ADDRESS PORT BYTES")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(certificate, key, port string) error {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	listener, err := quic.ListenAddr(":"+port, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{alpn}}, nil)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for {
		connection, err := listener.Accept(context.Background())
		if err != nil {
			return err
		}
		go func() {
			if err := answer(connection); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}()
	}
}

// Answers the first request of a connection.
func answer(connection *quic.Conn) error {
	stream, err := connection.AcceptStream(context.Background())
	if err != nil {
		return err
	}
	request, err := io.ReadAll(io.LimitReader(stream, 64))
	if err != nil {
		return err
	}
	bytes, err := strconv.ParseInt(strings.TrimPrefix(strings.TrimSpace(string(request)), "GET /"), 10, 64)
	if err != nil {
		return err
	}
	chunk := make([]byte, 64*period)
	for at := range chunk {
		chunk[at] = byte(at % period)
	}
	for bytes > 0 {
		count, err := stream.Write(chunk[:min(bytes, int64(len(chunk)))])
		if err != nil {
			return err
		}
		bytes -= int64(count)
	}
	return stream.Close()
}

func fetch(server, bytes string) error {
	expected, err := strconv.ParseInt(bytes, 10, 64)
	if err != nil {
		return err
	}
	begun := time.Now()
	// The server's certificate is its own, made when the programs are built.
	options := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{alpn}}
	connection, err := quic.DialAddr(context.Background(), server, options, nil)
	if err != nil {
		return err
	}
	stream, err := connection.OpenStreamSync(context.Background())
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(stream, "GET /%d\r\n", expected); err != nil {
		return err
	}
	if err := stream.Close(); err != nil {
		return err
	}
	var read int64
	buffer := make([]byte, 65536)
	for {
		count, err := stream.Read(buffer)
		for index, value := range buffer[:count] {
			if int64(value) != (read+int64(index))%period {
				return fmt.Errorf("byte %d is wrong", read+int64(index))
			}
		}
		read += int64(count)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if read != expected {
		return fmt.Errorf("%d bytes of %d came", read, expected)
	}
	fmt.Printf("%.6f\n", time.Since(begun).Seconds())
	return connection.CloseWithError(0, "")
}
