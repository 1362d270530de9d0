package netio

// What a protocol package implements.

// A Session is the protocol side of one connection. Serve and Close run on the connection's goroutine. Hangup and Abort may
// be called from any goroutine, concurrently with Serve; they must not block, and are not called after Close has begun.
type Session interface {
	// Serve gets everything that was read and not yet consumed. It takes what it can, writes its answers to the Conn, and
	// returns how many bytes it consumed; the rest comes again, at the start of in, when there is more. in is valid until
	// Serve returns or calls Conn.Idle. Serve must make progress when in is as long as ReadSize.
	//
	// A non-nil error closes the connection after what was written is flushed; io.EOF is a normal end.
	Serve(in []byte) (n int, err error)
	// Hangup says that the peer has shut down its sending side or is gone. A wait inside Serve must end. What the peer had
	// sent before is still served, and answered. Called at most once.
	Hangup()
	// Abort says that the server is shutting down. A wait inside Serve must end without an answer, and Serve then returns an
	// error or has consumed the command. Called at most once.
	Abort()
	// Close is the last call. It may write, and must then call Flush itself.
	Close()
}

// A Poked is a Session that also says things nobody has asked for, when Conn.Poke tells it that there is something to say.
type Poked interface {
	// Poked is called on the connection's goroutine after Conn.Poke, between two calls of Serve or after one. It may write.
	// An error closes the connection, as Serve's does.
	Poked() error
}
