package io.github.bursar.linkis.ecm;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.netty.bootstrap.Bootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufUtil;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFuture;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.channel.epoll.Epoll;
import io.netty.channel.epoll.EpollDomainSocketChannel;
import io.netty.channel.epoll.EpollEventLoopGroup;
import io.netty.channel.unix.DomainSocketAddress;
import io.netty.handler.codec.http.DefaultFullHttpRequest;
import io.netty.handler.codec.http.FullHttpRequest;
import io.netty.handler.codec.http.FullHttpResponse;
import io.netty.handler.codec.http.HttpClientCodec;
import io.netty.handler.codec.http.HttpHeaderNames;
import io.netty.handler.codec.http.HttpHeaderValues;
import io.netty.handler.codec.http.HttpMethod;
import io.netty.handler.codec.http.HttpObjectAggregator;
import io.netty.handler.codec.http.HttpVersion;
import io.netty.util.AsciiString;
import io.netty.util.concurrent.DefaultThreadFactory;
import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Calls to an agent: Connect's JSON over HTTP/1.1 over a Unix socket. A call has a connection of its
 * own. Any number of threads may call at the same time.
 */
final class AgentTransport implements Closeable {
  /** An answer has one allocation, or a page of them. */
  private static final int MAX_ANSWER = 4 << 20;

  private static final int ROOT = 0;

  private static final AsciiString STREAMED = AsciiString.cached("application/connect+json");

  /** Each message of a stream begins with a byte of flags and its length, in four bytes. */
  private static final int ENVELOPE = 5;

  /** The flag of the last one: how the stream has ended. */
  private static final int LAST = 2;

  /** How much longer than the server's time limit the answer is waited for. */
  private static final Duration SLACK = Duration.ofSeconds(1);

  private static final ObjectMapper JSON = new ObjectMapper();

  private final String socket;
  private final EventLoopGroup loop;

  /**
   * @throws IllegalStateException if Netty's native epoll cannot be loaded on this machine
   */
  AgentTransport(String socket) {
    if (!Epoll.isAvailable()) {
      throw new IllegalStateException(
          EcmSettings.SOCKET
              + ": \""
              + socket
              + "\": Unix sockets cannot be used: want Netty's netty-transport-native-epoll for this"
              + " machine on the class path",
          Epoll.unavailabilityCause());
    }
    this.socket = socket;
    this.loop = new EpollEventLoopGroup(1, new DefaultThreadFactory("bursar-agent", true));
  }

  static ObjectNode object() {
    return JSON.createObjectNode();
  }

  /**
   * Makes one call and returns its answer.
   *
   * @param procedure such as AllocationService/Get
   */
  JsonNode call(String procedure, ObjectNode request, Duration timeout) throws AgentException {
    byte[] body = request.toString().getBytes(StandardCharsets.UTF_8);
    return read(procedure, send(procedure, body, HttpHeaderValues.APPLICATION_JSON, timeout));
  }

  /**
   * Makes one call and returns all messages of its answer, which is a stream that ends by itself and
   * has at most {@value #MAX_ANSWER} bytes.
   *
   * @param procedure such as EngineService/Logs
   */
  List<JsonNode> stream(String procedure, ObjectNode request, Duration timeout) throws AgentException {
    byte[] message = request.toString().getBytes(StandardCharsets.UTF_8);
    byte[] body = ByteBuffer.allocate(ENVELOPE + message.length).put((byte) 0).putInt(message.length).put(message).array();
    Answer answer = send(procedure, body, STREAMED, timeout);
    if (answer.status != 200) {
      read(procedure, answer); // which is an error
    }
    List<JsonNode> messages = new ArrayList<>();
    for (ByteBuffer left = ByteBuffer.wrap(answer.body); left.remaining() >= ENVELOPE; ) {
      boolean last = (left.get() & LAST) != 0;
      int length = left.getInt();
      if (length < 0 || length > left.remaining()) {
        break;
      }
      JsonNode read = parsed(new String(answer.body, left.position(), length, StandardCharsets.UTF_8));
      left.position(left.position() + length);
      if (read == null || !read.isObject()) {
        break;
      }
      if (last && read.hasNonNull("error")) {
        JsonNode error = read.get("error");
        throw new AgentException(error.path("code").asText("unknown"), of(procedure) + error.path("message").asText());
      }
      if (last) {
        return messages;
      }
      messages.add(read);
    }
    throw new AgentException("unavailable", of(procedure) + "the answer is not whole");
  }

  private Answer send(String procedure, byte[] body, CharSequence type, Duration timeout) throws AgentException {
    CompletableFuture<Answer> answered = new CompletableFuture<>();
    ChannelFuture connecting =
        new Bootstrap()
            .group(loop)
            .channel(EpollDomainSocketChannel.class)
            .handler(new Pipeline(answered))
            .connect(new DomainSocketAddress(socket));
    Channel channel = connecting.channel();
    channel
        .closeFuture()
        .addListener(
            closed ->
                answered.completeExceptionally(
                    new AgentException("unavailable", "the agent closed the connection")));
    connecting.addListener(
        connected -> {
          if (!connected.isSuccess()) {
            answered.completeExceptionally(connected.cause());
            return;
          }
          try {
            trust(((EpollDomainSocketChannel) channel).peerCredentials().uid());
            channel.writeAndFlush(message(procedure, body, type, timeout));
          } catch (IOException e) {
            answered.completeExceptionally(e);
          }
        });
    try {
      return answered.get(timeout.plus(SLACK).toMillis(), TimeUnit.MILLISECONDS);
    } catch (TimeoutException e) {
      throw new AgentException(
          "deadline_exceeded", of(procedure) + "no answer within " + timeout, e);
    } catch (ExecutionException e) {
      Throwable cause = e.getCause();
      throw new AgentException("unavailable", of(procedure) + cause.getMessage(), cause);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new AgentException("canceled", of(procedure) + "interrupted", e);
    } finally {
      channel.close();
    }
  }

  /** Anybody could make a socket if its folder lets him, and would be told what engines run. */
  static void trust(int server) throws IOException {
    if (server != ROOT && server != ownUser()) {
      throw new IOException(
          "it is a process of uid "
              + server
              + ": want an agent of root or of the ECM's own user, "
              + ownUser());
    }
  }

  /** The user of this process. */
  static Integer ownUser() throws IOException {
    return (Integer) Files.getAttribute(Paths.get("/proc/self"), "unix:uid");
  }

  private String of(String procedure) {
    return "agent " + socket + ": " + procedure + ": ";
  }

  private static FullHttpRequest message(String procedure, byte[] body, CharSequence type, Duration timeout) {
    FullHttpRequest message =
        new DefaultFullHttpRequest(
            HttpVersion.HTTP_1_1,
            HttpMethod.POST,
            "/bursar.v1." + procedure,
            Unpooled.wrappedBuffer(body));
    message
        .headers()
        .set(HttpHeaderNames.HOST, "agent")
        .set(HttpHeaderNames.CONTENT_TYPE, type)
        .set(HttpHeaderNames.CONTENT_LENGTH, body.length)
        .set(HttpHeaderNames.CONNECTION, HttpHeaderValues.CLOSE)
        .set("Connect-Protocol-Version", "1")
        .set("Connect-Timeout-Ms", timeout.toMillis());
    return message;
  }

  private JsonNode read(String procedure, Answer answer) throws AgentException {
    JsonNode body = parsed(new String(answer.body, StandardCharsets.UTF_8));
    if (body != null && body.isObject() && answer.status == 200) {
      return body;
    }
    if (body != null && body.hasNonNull("code")) {
      throw new AgentException(
          body.get("code").asText(), of(procedure) + body.path("message").asText());
    }
    throw new AgentException(
        "unavailable",
        of(procedure)
            + "HTTP status "
            + answer.status
            + " without an answer of Bursar's API: want the socket of a bursar agent");
  }

  /** Null: it is not what a server of Connect sends, or something between. */
  private static JsonNode parsed(String text) {
    try {
      return AnswerBounds.hold(text) ? JSON.readTree(text) : null;
    } catch (JsonProcessingException e) {
      return null;
    }
  }

  @Override
  public void close() {
    loop.shutdownGracefully(0, 1, TimeUnit.SECONDS);
  }

  private static final class Answer {
    final int status;
    final byte[] body;

    Answer(int status, byte[] body) {
      this.status = status;
      this.body = body;
    }
  }

  private static final class Pipeline extends ChannelInitializer<Channel> {
    private final CompletableFuture<Answer> answered;

    Pipeline(CompletableFuture<Answer> answered) {
      this.answered = answered;
    }

    @Override
    protected void initChannel(Channel channel) {
      channel
          .pipeline()
          .addLast(
              new HttpClientCodec(),
              new HttpObjectAggregator(MAX_ANSWER),
              new SimpleChannelInboundHandler<FullHttpResponse>() {
                @Override
                protected void channelRead0(ChannelHandlerContext ctx, FullHttpResponse response) {
                  ByteBuf content = response.content();
                  answered.complete(
                      new Answer(response.status().code(), ByteBufUtil.getBytes(content)));
                }

                @Override
                public void exceptionCaught(ChannelHandlerContext ctx, Throwable cause) {
                  answered.completeExceptionally(cause);
                  ctx.close();
                }
              });
    }
  }
}
