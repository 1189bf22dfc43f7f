// A server and a client in Go's own way: no C library, many goroutines on epoll.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
)

const connections = 100

func serve(address string) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			io.Copy(connection, connection)
			connection.Close()
		}()
	}
}

// Sends while it receives, ends its side, and reads until the server has ended its own.
func echo(address string, size int) error {
	connection, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer connection.Close()
	sent := bytes.Repeat([]byte{byte(size)}, size)
	go func() {
		connection.Write(sent)
		connection.(*net.TCPConn).CloseWrite()
	}()
	received, err := io.ReadAll(connection)
	if err == nil && !bytes.Equal(sent, received) {
		err = fmt.Errorf("sent %d, received %d", len(sent), len(received))
	}
	return err
}

func main() {
	if os.Args[1] == "serve" {
		serve(os.Args[2])
		return
	}
	var all sync.WaitGroup
	for i := range connections {
		all.Add(1)
		go func() {
			defer all.Done()
			if err := echo(os.Args[2], 1000*i); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
		}()
	}
	all.Wait()
	_, err := net.Dial("tcp", "127.0.0.1:1")
	fmt.Println(connections, err)
}
