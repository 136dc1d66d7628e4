// Send, and a worker whose acks go with the next receive: `go run main.go [URL]`, TURNABOUT_TOKEN.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"
)

type object map[string]any

type answer struct {
	Outcome    string
	Acked      []struct{ Outcome string }
	Deliveries []struct {
		Receipt, Channel string
		Payload          struct{ Text string }
	}
	Error struct {
		Message   string
		Retryable bool
	}
}

var client = http.Client{Timeout: 90 * time.Second} // longer than the longest wait for a message

// Both calls below may be repeated after a lost answer: a send with a key, and a receive.
func call(path string, body object) (got answer) {
	url := append(os.Args, "http://127.0.0.1:8080")[1] + "/v1/queues/letters/" + path
	for text, _ := json.Marshal(body); ; time.Sleep(time.Second) {
		request, _ := http.NewRequest("POST", url, bytes.NewReader(text))
		request.Header.Set("Authorization", "Bearer "+os.Getenv("TURNABOUT_TOKEN"))
		response, err := client.Do(request)
		if err == nil {
			got = answer{}
			err = json.NewDecoder(response.Body).Decode(&got)
			response.Body.Close()
			if err == nil && got.Error.Message == "" {
				return got // 409 is an outcome, too: refused, as the queue is full
			}
		}
		fmt.Fprintln(os.Stderr, err, got.Error.Message)
		if err == nil && !got.Error.Retryable {
			os.Exit(1)
		}
	}
}

func main() {
	letter := object{"payload": object{"text": "Dear Ada"}, "channel": "ada", "dedup_key": "letter-1"}
	fmt.Println(call("messages", object{"messages": []object{letter}}).Outcome)
	for acks := []string{}; ; {
		// A worker that goes on for ever waits longer: "wait_seconds": 20.
		got := call("receive", object{"acks": acks, "lease_seconds": 60, "wait_seconds": 1})
		for _, one := range got.Acked {
			fmt.Println(one.Outcome) // or lease_lost: it took longer than its lease
		}
		if acks = nil; len(got.Deliveries) == 0 {
			return
		}
		for _, message := range got.Deliveries {
			fmt.Println(message.Channel, message.Payload.Text)
			acks = append(acks, message.Receipt)
		}
	}
}
