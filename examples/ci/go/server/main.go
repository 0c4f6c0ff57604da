// Receives messages, each after its length in eight bytes, and answers each with its CRC-32 in four bytes.
package main

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"log"
	"net"
	"os"
)

func serve(connection net.Conn) {
	defer connection.Close()
	for {
		var length uint64
		if binary.Read(connection, binary.BigEndian, &length) != nil {
			return
		}
		sum := crc32.NewIEEE()
		if _, err := io.CopyN(sum, connection, int64(length)); err != nil {
			return
		}
		if binary.Write(connection, binary.BigEndian, sum.Sum32()) != nil {
			return
		}
	}
}

func main() {
	listener, err := net.Listen("tcp", ":"+os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening")
	for {
		connection, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go serve(connection)
	}
}
