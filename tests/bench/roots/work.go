// SPDX-License-Identifier: Apache-2.0

// Goroutines that sort, use maps, format and make garbage.
package main

import (
	"fmt"
	"sort"
	"strings"
)

type tree struct{ left, right *tree }

func grow(depth int) *tree {
	if depth == 0 {
		return &tree{}
	}
	return &tree{grow(depth - 1), grow(depth - 1)}
}

func count(at *tree) int {
	if at == nil {
		return 0
	}
	return 1 + count(at.left) + count(at.right)
}

func round(number int) int {
	words := make([]string, 500)
	for i := range words {
		words[i] = fmt.Sprintf("word %d", (i*7919+number)%503)
	}
	sort.Slice(words, func(a, b int) bool { return words[a] < words[b] })
	seen := map[string]int{}
	for _, word := range words {
		seen[strings.ToUpper(word)]++
	}
	return len(seen) + count(grow(10))
}

func main() {
	done := make(chan int)
	for worker := 0; worker < 2; worker++ {
		go func(number int) {
			for {
				number += round(number)
			}
		}(worker)
	}
	<-done
}
