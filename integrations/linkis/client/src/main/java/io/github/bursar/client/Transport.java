package io.github.bursar.client;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.time.Duration;
import java.util.Map;

/** Carries requests to one server. Many threads use it at once. */
interface Transport extends Closeable {
  /**
   * Posts a body and reads the answer whole.
   *
   * @param path such as "/bursar.v1.AllocationService/Allocate"
   * @param headers to send
   * @param timeout for all of it: connecting, sending, waiting, reading
   * @param maxBytes of an answer; a larger one is an IOException
   * @throws ConnectFailed if nothing was sent, so that the call had no effect
   */
  Answer post(String path, Map<String, String> headers, byte[] body, Duration timeout, int maxBytes) throws IOException;

  /**
   * Posts a body and gives the answer as it comes. Reading fails when nothing came for idle.
   * Closing the stream ends the call.
   */
  Stream stream(String path, Map<String, String> headers, byte[] body, Duration idle) throws IOException;

  /** What it reaches, for messages: no secrets. */
  String target();

  @Override
  void close();

  /** An answer. */
  final class Answer {
    private final int status;
    private final String retryAfter;
    private final byte[] body;

    /**
     * An answer.
     *
     * @param status HTTP's
     * @param retryAfter the header Retry-After; null: none
     */
    public Answer(int status, String retryAfter, byte[] body) {
      this.status = status;
      this.retryAfter = retryAfter;
      this.body = body;
    }

    int status() {
      return status;
    }

    String retryAfter() {
      return retryAfter;
    }

    byte[] body() {
      return body;
    }
  }

  /** An answer that comes in pieces. */
  final class Stream implements Closeable {
    private final int status;
    private final InputStream body;
    private final Closeable end;

    /** A stream that is ended by end, also while another thread reads. */
    public Stream(int status, InputStream body, Closeable end) {
      this.status = status;
      this.body = body;
      this.end = end;
    }

    int status() {
      return status;
    }

    InputStream body() {
      return body;
    }

    @Override
    public void close() throws IOException {
      end.close();
    }
  }

  /** No connection could be made: nothing was sent. */
  final class ConnectFailed extends IOException {
    private static final long serialVersionUID = 1;

    /** With what was tried. */
    public ConnectFailed(String message, Throwable cause) {
      super(message, cause);
    }
  }
}
