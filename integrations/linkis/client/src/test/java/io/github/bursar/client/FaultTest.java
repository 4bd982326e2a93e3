package io.github.bursar.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.bursar.client.BursarException.Code;
import java.io.IOException;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Servers that hang, break off, answer nonsense or send elsewhere. */
@Timeout(60)
class FaultTest {
  private static final String GRANTED = "{\"allocation\":{\"id\":\"a1\",\"state\":\"ALLOCATION_STATE_RESERVED\",\"hostId\":\"h\"}}";
  private static final AllocateRequest ONE =
      AllocateRequest.builder().label("user", "alice").resource(Resource.builder().memoryBytes(1).build()).build();

  private static BursarClient.Builder quick(String... urls) {
    return BursarClient.builder()
        .urls(urls)
        .callTimeout(Duration.ofSeconds(5))
        .attemptTimeout(Duration.ofMillis(500))
        .connectTimeout(Duration.ofMillis(500));
  }

  private static BursarException fails(BursarClient client) {
    return assertThrows(BursarException.class, () -> client.allocate(ONE));
  }

  private static String requestId(String request) {
    Matcher m = Pattern.compile("\"requestId\":\"([^\"]+)\"").matcher(request);
    assertTrue(m.find(), request);
    return m.group(1);
  }

  @Test
  void aServerThatHangsIsLeftForTheNextUnderOneRequestId() throws IOException {
    try (FaultServer hangs = new FaultServer((out, s) -> Thread.sleep(30_000));
        FaultServer good = new FaultServer(FaultServer.text("200 OK", "Content-Type: application/json\r\n", GRANTED));
        BursarClient client = quick(hangs.url(), good.url()).build()) {
      assertEquals("a1", client.allocate(ONE).id());
      assertEquals(requestId(hangs.requests.get(0)), requestId(good.requests.get(0)));
      client.allocate(ONE);
      assertEquals(1, hangs.requests.size(), "the one that answered is asked first from then on");
    }
  }

  @Test
  void aResetIsRepeatedUnderTheSameRequestId() throws IOException {
    AtomicInteger n = new AtomicInteger();
    FaultServer.Fault ok = FaultServer.text("200 OK", "", GRANTED);
    try (FaultServer s =
            new FaultServer(
                (out, socket) -> {
                  if (n.incrementAndGet() < 3) {
                    socket.setSoLinger(true, 0);
                    socket.close();
                  } else {
                    ok.answer(out, socket);
                  }
                });
        BursarClient client = quick(s.url()).build()) {
      assertEquals("a1", client.allocate(ONE).id());
      assertEquals(3, s.requests.size());
      assertEquals(1, s.requests.stream().map(FaultTest::requestId).distinct().count());
    }
  }

  @Test
  void aDripOfBytesIsBoundedByTheAttemptAndTheCall() throws IOException {
    try (FaultServer s =
            new FaultServer(
                (out, socket) -> {
                  out.write("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n".getBytes());
                  for (int i = 0; i < 1000; i++) {
                    out.write(' ');
                    out.flush();
                    Thread.sleep(100);
                  }
                });
        BursarClient client = quick(s.url()).callTimeout(Duration.ofSeconds(2)).build()) {
      long begin = System.nanoTime();
      BursarException e = fails(client);
      assertEquals(Code.UNAVAILABLE, e.code());
      assertTrue(e.retriable());
      assertTrue(System.nanoTime() - begin < Duration.ofSeconds(4).toNanos());
    }
  }

  /** The last attempt has what is left of the call's time, and what the others met says more. */
  @Test
  void aCallThatIsCutOffInItsLastAttemptSaysWhatTheOthersMet() throws IOException {
    AtomicInteger n = new AtomicInteger();
    FaultServer.Fault standby = FaultServer.text("503 No", "", "{\"code\":\"unavailable\",\"message\":\"no leader yet\"}");
    try (FaultServer s =
            new FaultServer(
                (out, socket) -> {
                  if (n.incrementAndGet() == 1) {
                    standby.answer(out, socket);
                  } else {
                    Thread.sleep(30_000);
                  }
                });
        BursarClient client = quick(s.url()).attemptTimeout(Duration.ofSeconds(10)).callTimeout(Duration.ofSeconds(1)).build()) {
      BursarException e = fails(client);
      assertTrue(s.requests.stream().filter(r -> r.contains("/Allocate")).count() >= 2, s.requests.toString());
      assertTrue(e.getMessage().contains("no leader yet"), e.getMessage());
    }
  }

  /** An attempt that had all of its time says what it met itself. */
  @Test
  void aCallWhoseLastAttemptHadItsTimeSaysWhatThatMet() throws IOException {
    AtomicInteger n = new AtomicInteger();
    FaultServer.Fault standby = FaultServer.text("503 No", "", "{\"code\":\"unavailable\",\"message\":\"no leader yet\"}");
    try (FaultServer s =
            new FaultServer(
                (out, socket) -> {
                  if (n.incrementAndGet() == 1) {
                    standby.answer(out, socket);
                  } else {
                    Thread.sleep(30_000);
                  }
                });
        BursarClient client = quick(s.url()).attemptTimeout(Duration.ofSeconds(1)).callTimeout(Duration.ofMillis(2500)).build()) {
      BursarException e = fails(client);
      assertEquals(Code.UNAVAILABLE, e.code());
      assertFalse(e.getMessage().contains("no leader yet"), e.getMessage());
    }
  }

  @Test
  void aRequestThatNobodyAnsweredIsCanceled() throws Exception {
    try (FaultServer s =
            new FaultServer(
                (out, socket) -> {
                  Thread.sleep(200);
                  socket.close();
                });
        BursarClient client = quick(s.url()).callTimeout(Duration.ofSeconds(1)).build()) {
      fails(client);
      String id = requestId(s.requests.get(0));
      for (int i = 0; i < 100 && s.requests.stream().noneMatch(r -> r.contains("/Cancel")); i++) {
        Thread.sleep(50);
      }
      assertTrue(s.requests.stream().anyMatch(r -> r.contains("/Cancel") && requestId(r).equals(id)), s.requests.toString());
    }
  }

  /** The first attempt may have been granted, whatever the last one is told. */
  @Test
  void aRequestOfWhichOneAttemptWasNotAnsweredIsCanceledWhateverTheLastSays() throws Exception {
    for (String last : new String[] {"unauthenticated", "permission_denied", "resource_exhausted", "aborted"}) {
      AtomicInteger n = new AtomicInteger();
      FaultServer.Fault says = FaultServer.text("429 No", "", "{\"code\":\"" + last + "\",\"message\":\"no\"}");
      try (FaultServer s =
              new FaultServer(
                  (out, socket) -> {
                    if (n.incrementAndGet() == 1) {
                      Thread.sleep(200);
                      socket.close();
                    } else {
                      says.answer(out, socket);
                    }
                  });
          BursarClient client = quick(s.url()).callTimeout(Duration.ofSeconds(1)).build()) {
        fails(client);
        String id = requestId(s.requests.get(0));
        for (int i = 0; i < 100 && s.requests.stream().noneMatch(r -> r.contains("/Cancel")); i++) {
          Thread.sleep(50);
        }
        assertTrue(s.requests.stream().anyMatch(r -> r.contains("/Cancel") && requestId(r).equals(id)), last + ": " + s.requests);
      }
    }
  }

  @Test
  void aHugeAnswerIsNotRead() throws IOException {
    try (FaultServer announced = new FaultServer(
            (out, s) -> out.write("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{".getBytes()));
        FaultServer endless =
            new FaultServer(
                (out, s) -> {
                  out.write("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".getBytes());
                  byte[] spaces = new byte[1 << 16];
                  while (true) {
                    out.write(spaces);
                  }
                });
        BursarClient client =
            quick(announced.url(), endless.url()).maxAnswerBytes(1 << 20).callTimeout(Duration.ofSeconds(2)).build()) {
      BursarException e = fails(client);
      assertEquals(Code.UNAVAILABLE, e.code());
    }
  }

  private static void bounded(String body, java.util.function.Consumer<BursarClient> call) throws IOException {
    try (FaultServer s = new FaultServer(FaultServer.text("200 OK", "", body));
        BursarClient client = quick(s.url()).attemptTimeout(Duration.ofSeconds(20)).callTimeout(Duration.ofSeconds(1)).build()) {
      long begin = System.nanoTime();
      assertThrows(BursarException.class, () -> call.accept(client));
      long took = Duration.ofNanos(System.nanoTime() - begin).toMillis();
      assertTrue(took < 3000, took + " ms for " + Json.shorten(body));
    }
  }

  /** Small for the network, and a long time or much memory for who makes a tree of it. */
  @Test
  void anAnswerThatKeepsItsReaderBusyIsRefusedBeforeItIsRead() throws IOException {
    String digits = "{\"allocations\":[],\"revision\":" + "9".repeat(4 << 20) + "}";
    bounded(digits, c -> c.allAllocations(AllocationFilter.live()));
    String deep = "{\"allocations\":" + "[".repeat(8 << 20) + "}";
    bounded(deep, c -> c.allAllocations(AllocationFilter.live()));
    String many = "{\"other\":[" + "{},".repeat(9 << 20) + "{}]}";
    bounded(many, c -> c.allAllocations(AllocationFilter.live()));
    String large = "{\"allocation\":{\"id\":\"a1\"},\"x\":\"" + "x".repeat(2 << 20) + "\"}";
    bounded(large, c -> c.get("a1"));
  }

  @Test
  void pagesThatDoNotEndAreEnded() throws IOException {
    AtomicInteger n = new AtomicInteger();
    String same = "{\"nextPageToken\":\"again\"}";
    bounded(same, BursarClient::allHosts);
    bounded(same, BursarClient::allQuotas);
    bounded(same, c -> c.allAllocations(AllocationFilter.live()));
    try (FaultServer s =
            new FaultServer(
                (out, socket) -> {
                  Thread.sleep(100);
                  FaultServer.text("200 OK", "", "{\"nextPageToken\":\"t" + n.incrementAndGet() + "\"}").answer(out, socket);
                });
        BursarClient client = quick(s.url()).callTimeout(Duration.ofSeconds(1)).build()) {
      long begin = System.nanoTime();
      BursarException e = assertThrows(BursarException.class, client::allHosts);
      assertTrue(e.retriable(), e.toString());
      assertTrue(System.nanoTime() - begin < Duration.ofSeconds(3).toNanos());
    }
  }

  @Test
  void whatAServerSaysIsOneLineAndBounded() throws IOException {
    String error =
        "{\"code\":\"invalid_argument\",\"message\":\"first\\nsecond \\u001b[31mred \\u202e" + "x".repeat(500_000) + "\",\"details\":[{\"type\":"
            + "\"bursar.v1.InvalidField\",\"debug\":{\"field\":\"a\\nb\",\"value\":\"\\u001b\",\"want\":\"\\r\"}}]}";
    try (FaultServer s = new FaultServer(FaultServer.text("400 Bad Request", "", error));
        BursarClient client = quick(s.url()).build()) {
      BursarException e = fails(client);
      String all = e.getMessage() + e.fieldViolations();
      assertTrue(e.getMessage().startsWith("first?second ?[31mred ?x"), e.getMessage());
      assertTrue(all.length() < 3000, all.length() + " characters");
      assertTrue(all.codePoints().noneMatch(Character::isISOControl), all);
    }
  }

  @Test
  void endlessHeadersAreNotRead() throws IOException {
    try (FaultServer lines = new FaultServer(
            (out, s) -> {
              out.write("HTTP/1.1 200 OK\r\n".getBytes());
              for (int i = 0; ; i++) {
                out.write(("X-" + i + ": y\r\n").getBytes());
              }
            });
        FaultServer line =
            new FaultServer(
                (out, s) -> {
                  out.write("HTTP/1.1 200 OK\r\nX: ".getBytes());
                  byte[] x = "x".repeat(1 << 16).getBytes();
                  while (true) {
                    out.write(x);
                  }
                })) {
      for (FaultServer s : new FaultServer[] {lines, line}) {
        try (BursarClient client = quick(s.url()).attemptTimeout(Duration.ofSeconds(20)).callTimeout(Duration.ofSeconds(1)).build()) {
          BursarException e = fails(client);
          assertTrue(e.getMessage().contains("axim"), e.getMessage());
        }
      }
    }
  }

  /** A listener that runs out of memory once is told again. */
  @Test
  void aWatchGoesOnAfterAnError() throws Exception {
    String transition = "{\"allocation\":{\"id\":\"a1\",\"state\":\"ALLOCATION_STATE_RELEASED\"},\"revision\":\"7\"}";
    AtomicInteger told = new AtomicInteger();
    try (FaultServer s =
            new FaultServer(
                (out, socket) -> {
                  out.write("HTTP/1.1 200 OK\r\nContent-Type: application/connect+json\r\nConnection: close\r\n\r\n".getBytes());
                  out.write(java.nio.ByteBuffer.allocate(5).put((byte) 0).putInt(transition.length()).array());
                  out.write(transition.getBytes());
                  out.flush();
                  Thread.sleep(500);
                });
        BursarClient client = quick(s.url()).build();
        AllocationWatch watch =
            client.watch(
                1,
                new AllocationWatch.Listener() {
                  @Override
                  public void onTransition(Allocation allocation, long revision) {
                    if (told.incrementAndGet() == 1) {
                      throw new OutOfMemoryError("once");
                    }
                  }

                  @Override
                  public long onGap() {
                    return 0;
                  }
                })) {
      for (int i = 0; told.get() < 2; i++) {
        assertTrue(i < 100, "it has ended");
        Thread.sleep(50);
      }
    }
  }

  @Test
  void aRedirectIsNotFollowed() throws IOException {
    try (FaultServer target = new FaultServer(FaultServer.text("200 OK", "", GRANTED));
        FaultServer s = new FaultServer(FaultServer.text("307 Temporary Redirect", "Location: " + target.url() + "/\r\n", ""));
        BursarClient client = quick(s.url()).build()) {
      BursarException e = fails(client);
      assertEquals(Code.UNIMPLEMENTED, e.code());
      assertTrue(e.getMessage().contains("307"), e.getMessage());
      assertTrue(target.requests.isEmpty());
    }
  }

  @Test
  void garbageIsATypedError() throws IOException {
    Random random = new Random(7);
    for (int i = 0; i < 60; i++) {
      byte[] bytes = new byte[random.nextInt(300)];
      random.nextBytes(bytes);
      String body =
          switch (i % 6) {
            case 0 -> "[".repeat(100_000);
            case 1 -> "{\"allocation\":{\"id\":\"x\",\"createTime\":\"yesterday\"}}";
            case 2 -> "{\"allocation\":{\"id\":\"x\",\"requested\":{\"memoryBytes\":\"1e99999999\"}}}";
            case 3 -> "{\"allocation\":{\"id\":\"x\",\"revision\":\"" + "9".repeat(5000) + "\"}}";
            case 4 -> "{\"allocation\":[1,2]}";
            default -> new String(bytes, java.nio.charset.StandardCharsets.ISO_8859_1);
          };
      String status = i % 2 == 0 ? "200 OK" : "500 Oops";
      try (FaultServer s = new FaultServer(FaultServer.text(status, "", body));
          BursarClient client = quick(s.url()).callTimeout(Duration.ofMillis(300)).build()) {
        fails(client);
      }
    }
  }

  @Test
  void aConnectErrorIsTypedAndDetailsThatAreNonsenseDoNotHurt() throws IOException {
    String error =
        "{\"code\":\"invalid_argument\",\"message\":\"no\",\"details\":[{\"type\":\"bursar.v1.InvalidField\",\"debug\":"
            + "{\"field\":\"labels[user]\",\"value\":\"\",\"want\":\"a name\"}},{\"type\":\"bursar.v1.InsufficientResources\",\"debug\":7},17,null]}";
    try (FaultServer s = new FaultServer(FaultServer.text("400 Bad Request", "", error));
        BursarClient client = quick(s.url()).build()) {
      BursarException e = fails(client);
      assertEquals(Code.INVALID_ARGUMENT, e.code());
      assertFalse(e.retriable());
      assertEquals("labels[user]", e.fieldViolations().get(0).field());
      assertEquals("a name", e.fieldViolations().get(0).want());
      assertEquals(1, s.requests.size(), "repeating it would not help");
    }
  }

  /** A coordinator that has forgotten the request would else begin the whole wait again. */
  @Test
  void aLaterAttemptWaitsForWhatIsLeft() throws IOException {
    AllocateRequest waits =
        AllocateRequest.builder()
            .label("user", "alice")
            .resource(Resource.builder().memoryBytes(1).build())
            .waitTime(Duration.ofMinutes(1))
            .build();
    try (FaultServer hangs = new FaultServer((out, s) -> Thread.sleep(30_000));
        FaultServer good = new FaultServer(FaultServer.text("200 OK", "Content-Type: application/json\r\n", GRANTED));
        BursarClient client = quick(hangs.url(), good.url()).build()) {
      client.allocate(waits);
      double left = waitOf(good.requests.get(0));
      assertTrue(waitOf(hangs.requests.get(0)) <= 60 && left <= 59.5 && left > 1, "left: " + left + " s");
    }
  }

  private static double waitOf(String request) {
    Matcher m = Pattern.compile("\"wait\":\"([0-9.]+)s\"").matcher(request);
    assertTrue(m.find(), request);
    return Double.parseDouble(m.group(1));
  }

  @Test
  void retryAfterIsObeyed() throws IOException {
    AtomicInteger n = new AtomicInteger();
    FaultServer.Fault ok = FaultServer.text("200 OK", "", GRANTED);
    FaultServer.Fault busy =
        FaultServer.text("429 Too Many", "Retry-After: 1\r\n", "{\"code\":\"resource_exhausted\",\"message\":\"too many requests\"}");
    try (FaultServer s = new FaultServer((out, socket) -> (n.incrementAndGet() == 1 ? busy : ok).answer(out, socket));
        BursarClient client = quick(s.url()).build()) {
      long begin = System.nanoTime();
      client.allocate(ONE);
      assertTrue(System.nanoTime() - begin >= Duration.ofMillis(1000).toNanos());
      assertEquals(2, s.requests.size());
    }
  }

  @Test
  void aTokenIsReadAgainAndNeverShown(@TempDir Path dir) throws Exception {
    Path file = dir.resolve("token");
    Files.writeString(file, "first-secret\n");
    try (FaultServer s = new FaultServer(FaultServer.text("401 Unauthorized", "", "{\"code\":\"unauthenticated\",\"message\":\"who are you\"}"));
        BursarClient client = quick(s.url()).tokenFile(file).build()) {
      BursarException e = fails(client);
      assertEquals(Code.UNAUTHENTICATED, e.code());
      Files.writeString(dir.resolve("next"), "second-secret");
      Files.move(dir.resolve("next"), file, java.nio.file.StandardCopyOption.REPLACE_EXISTING);
      fails(client);
      assertTrue(s.requests.get(0).contains("Bearer first-secret\r\n"));
      assertTrue(s.requests.get(1).contains("Bearer second-secret\r\n"));
      Files.writeString(file, "two words-secret");
      BursarException wrong = fails(client);
      assertEquals(2, s.requests.size());
      assertFalse((e + e.getMessage() + wrong).contains("secret"), wrong.toString());
    }
  }

  @Test
  void aTokenIsNotSentInClear(@TempDir Path dir) {
    IllegalArgumentException e =
        assertThrows(
            IllegalArgumentException.class,
            () -> BursarClient.builder().urls("http://10.1.2.3:7070").tokenFile(dir.resolve("t")).build());
    assertTrue(e.getMessage().contains("https://"), e.getMessage());
  }

  @Test
  void aWrongUrlIsNamedWithoutItsPassword() {
    for (String url : new String[] {"", "rm-1:7070", "ftp://rm", "http://u:secret@rm:1", "http://rm/x", "http://rm?a=b", "http:// rm"}) {
      IllegalArgumentException e = assertThrows(IllegalArgumentException.class, () -> BursarClient.builder().urls(url).build(), url);
      assertFalse(e.getMessage().contains("secret"), e.getMessage());
    }
    assertThrows(IllegalArgumentException.class, () -> BursarClient.builder().build());
  }

  @Test
  void aClosedClientEndsAtOnce() throws Exception {
    try (FaultServer s = new FaultServer((out, socket) -> Thread.sleep(30_000))) {
      BursarClient client = quick(s.url()).callTimeout(Duration.ofSeconds(30)).attemptTimeout(Duration.ofSeconds(30)).build();
      Thread t = new Thread(() -> assertThrows(BursarException.class, () -> client.allocate(ONE)));
      t.start();
      while (s.requests.isEmpty()) {
        Thread.sleep(10);
      }
      client.close();
      t.join(5000);
      assertFalse(t.isAlive());
    }
  }

  @Test
  void nobodyListens() throws IOException {
    int port = BursarServer.freePort();
    try (BursarClient client = quick("http://127.0.0.1:" + port).callTimeout(Duration.ofSeconds(1)).build()) {
      BursarException e = fails(client);
      assertEquals(Code.UNAVAILABLE, e.code());
      assertTrue(e.getMessage().contains("127.0.0.1:" + port), e.getMessage());
    }
    assertThrows(IOException.class, () -> new Socket("127.0.0.1", port).close());
  }
}
