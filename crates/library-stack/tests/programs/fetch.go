// Prints what it gets from the URL that it is given.
package main

import (
	"io"
	"log"
	"net/http"
	"os"
)

func main() {
	response, err := http.Get(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	if _, err = io.Copy(os.Stdout, response.Body); err != nil {
		log.Fatal(err)
	}
}
