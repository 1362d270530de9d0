//go:build !race

package beanstalk

const raceDetector = false
