//go:build race

package router

const raceDetector = true
