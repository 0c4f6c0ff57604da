// Sends messages of several sizes to the server and checks its answers; ends with exit code 1 if one is wrong.
package main

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"log"
	"net"
	"os"
)

func main() {
	connection, err := net.Dial("tcp", net.JoinHostPort(os.Args[1], os.Args[2]))
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	for _, size := range []int{0, 1, 1000, 300_000} {
		message := binary.BigEndian.AppendUint64(nil, uint64(size))
		for i := 0; i < size; i++ {
			message = append(message, byte(i%251))
		}
		if _, err := connection.Write(message); err != nil {
			log.Fatal(err)
		}
		var answer uint32
		if err := binary.Read(connection, binary.BigEndian, &answer); err != nil {
			log.Fatal(err)
		}
		if answer != crc32.ChecksumIEEE(message[8:]) {
			log.Fatalf("wrong answer to %d bytes", size)
		}
		fmt.Printf("%d bytes: right\n", size)
	}
}
