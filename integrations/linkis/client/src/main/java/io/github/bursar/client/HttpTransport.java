package io.github.bursar.client;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.ConnectException;
import java.net.InetAddress;
import java.net.NoRouteToHostException;
import java.net.URI;
import java.net.URISyntaxException;
import java.net.UnknownHostException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLHandshakeException;
import javax.net.ssl.SSLPeerUnverifiedException;
import org.apache.http.Header;
import org.apache.http.HttpEntity;
import org.apache.http.client.config.CookieSpecs;
import org.apache.http.client.config.RequestConfig;
import org.apache.http.client.methods.CloseableHttpResponse;
import org.apache.http.client.methods.HttpPost;
import org.apache.http.config.ConnectionConfig;
import org.apache.http.config.MessageConstraints;
import org.apache.http.config.RegistryBuilder;
import org.apache.http.conn.ConnectTimeoutException;
import org.apache.http.conn.ConnectionPoolTimeoutException;
import org.apache.http.conn.socket.ConnectionSocketFactory;
import org.apache.http.conn.socket.PlainConnectionSocketFactory;
import org.apache.http.conn.ssl.SSLConnectionSocketFactory;
import org.apache.http.entity.ByteArrayEntity;
import org.apache.http.impl.client.CloseableHttpClient;
import org.apache.http.impl.client.HttpClients;
import org.apache.http.impl.conn.PoolingHttpClientConnectionManager;
import org.apache.http.ssl.SSLContexts;

/** One server over http or https, with a pool of connections that all servers of a client share. */
final class HttpTransport implements Transport {
  private final URI base;
  private final Shared shared;

  private HttpTransport(URI base, Shared shared) {
    this.base = base;
    this.shared = shared;
  }

  /** A transport for each URL. They share a pool, which is closed with the last of them. */
  static List<Transport> all(
      Collection<String> urls, boolean withToken, Path tlsCa, Duration connectTimeout, int maxConnections) {
    List<URI> bases = new ArrayList<>();
    for (String url : urls) {
      bases.add(base(url, withToken));
    }
    Shared shared = new Shared(tlsCa, connectTimeout, maxConnections, bases.size());
    List<Transport> transports = new ArrayList<>();
    bases.forEach(b -> transports.add(new HttpTransport(b, shared)));
    return transports;
  }

  private static URI base(String url, boolean withToken) {
    URI u;
    try {
      u = new URI(url.trim());
    } catch (URISyntaxException e) {
      throw wrong(url, "it is no URL");
    }
    String path = u.getRawPath() == null ? "" : u.getRawPath();
    boolean web = "http".equals(u.getScheme()) || "https".equals(u.getScheme());
    if (!web || u.getHost() == null || u.getRawUserInfo() != null || u.getRawQuery() != null || u.getRawFragment() != null
        || !(path.isEmpty() || path.equals("/"))) {
      throw wrong(url, "it is no base URL");
    }
    if (withToken && "http".equals(u.getScheme()) && !loopback(u.getHost())) {
      throw new IllegalArgumentException(
          "url " + url.trim() + ": the token would be sent in clear: use https:// and TLS at the coordinator, or no token");
    }
    return URI.create(u.getScheme() + "://" + u.getRawAuthority());
  }

  private static IllegalArgumentException wrong(String url, String why) {
    // What stands before an @ may be a password.
    return new IllegalArgumentException(
        "url \"" + url.replaceAll("//[^/]*@", "//…@") + "\": " + why + ": use http://HOST:PORT or https://HOST:PORT");
  }

  private static boolean loopback(String host) {
    if (host.equals("localhost")) {
      return true;
    }
    if (!host.matches("[0-9.]+|\\[[0-9a-fA-F:.]+\\]")) {
      return false; // what a name stands for may change
    }
    try {
      return InetAddress.getByName(host).isLoopbackAddress();
    } catch (UnknownHostException e) {
      return false;
    }
  }

  @Override
  public Answer post(String path, Map<String, String> headers, byte[] body, Duration timeout, int maxBytes) throws IOException {
    HttpPost post = request(path, headers, body, timeout);
    AtomicBoolean late = new AtomicBoolean();
    ScheduledFuture<?> end = shared.after(timeout, () -> {
      late.set(true);
      post.abort();
    });
    try (CloseableHttpResponse response = shared.http.execute(post)) {
      Header retry = response.getFirstHeader("Retry-After");
      byte[] answer = read(response.getEntity(), maxBytes);
      return new Answer(response.getStatusLine().getStatusCode(), retry == null ? null : retry.getValue(), answer);
    } catch (IOException | RuntimeException e) {
      if (late.get()) {
        throw new IOException("no answer within " + timeout.toMillis() + " ms", e);
      }
      throw meaning(e);
    } finally {
      end.cancel(false);
      post.reset();
    }
  }

  @Override
  public Stream stream(String path, Map<String, String> headers, byte[] body, Duration idle) throws IOException {
    HttpPost post = request(path, headers, body, idle);
    // Until the answer begins; each read of it has the socket's timeout.
    ScheduledFuture<?> end = shared.after(idle, post::abort);
    try {
      CloseableHttpResponse response = shared.http.execute(post);
      HttpEntity entity = response.getEntity();
      InputStream in = entity == null ? new java.io.ByteArrayInputStream(new byte[0]) : entity.getContent();
      return new Stream(response.getStatusLine().getStatusCode(), in, () -> {
        post.abort();
        response.close();
      });
    } catch (IOException | RuntimeException e) {
      throw meaning(e);
    } finally {
      end.cancel(false);
    }
  }

  private HttpPost request(String path, Map<String, String> headers, byte[] body, Duration timeout) {
    int millis = (int) Math.max(1, Math.min(Integer.MAX_VALUE, timeout.toMillis()));
    HttpPost post = new HttpPost(base + path);
    headers.forEach(post::setHeader);
    post.setEntity(new ByteArrayEntity(body));
    post.setConfig(
        RequestConfig.copy(shared.defaults)
            .setConnectTimeout((int) Math.min(millis, shared.connectTimeout.toMillis()))
            .setConnectionRequestTimeout(millis)
            .setSocketTimeout(millis)
            .build());
    return post;
  }

  private static byte[] read(HttpEntity entity, int maxBytes) throws IOException {
    if (entity == null) {
      return new byte[0];
    }
    if (entity.getContentLength() > maxBytes) {
      throw new IOException("the answer has " + entity.getContentLength() + " bytes: at most " + maxBytes + " are read");
    }
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    byte[] buffer = new byte[8192];
    try (InputStream in = new Bounded(entity.getContent(), maxBytes)) {
      for (int n = in.read(buffer); n >= 0; n = in.read(buffer)) {
        out.write(buffer, 0, n);
      }
    }
    return out.toByteArray();
  }

  /** Tells apart what has had no effect: there was no connection. */
  private IOException meaning(Exception e) {
    if (e instanceof SSLHandshakeException || e instanceof SSLPeerUnverifiedException) {
      return new ConnectFailed("the server's certificate is not trusted: " + e.getMessage(), e);
    }
    if (e instanceof ConnectException || e instanceof ConnectTimeoutException || e instanceof UnknownHostException
        || e instanceof NoRouteToHostException || e instanceof ConnectionPoolTimeoutException) {
      return new ConnectFailed(e instanceof UnknownHostException ? "no such host" : String.valueOf(e.getMessage()), e);
    }
    return e instanceof IOException ? (IOException) e : new IOException(String.valueOf(e.getMessage()), e);
  }

  @Override
  public String target() {
    return base.toString();
  }

  @Override
  public void close() {
    shared.release();
  }

  /** Ends with an error when more was read than is allowed, without reading the rest. */
  private static final class Bounded extends InputStream {
    private final InputStream in;
    private final int most;
    private int left;

    Bounded(InputStream in, int most) {
      this.in = in;
      this.most = most;
      left = most;
    }

    @Override
    public int read() throws IOException {
      byte[] one = new byte[1];
      return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
    }

    @Override
    public int read(byte[] b, int off, int len) throws IOException {
      int n = in.read(b, off, len);
      if (n > left) {
        throw new IOException("the answer has more than " + most + " bytes, which is the most that is read");
      }
      left -= Math.max(0, n);
      return n;
    }
    // close leaves the connection to the response, which drops what was not read to the end
  }

  /** What the transports of a client share. */
  private static final class Shared {
    final Duration connectTimeout;
    final RequestConfig defaults;
    final CloseableHttpClient http;
    final ScheduledExecutorService timer;
    private int users; // guarded by this

    Shared(Path tlsCa, Duration connectTimeout, int maxConnections, int users) {
      this.connectTimeout = connectTimeout;
      this.users = users;
      defaults =
          RequestConfig.custom()
              .setRedirectsEnabled(false)
              .setContentCompressionEnabled(false)
              .setAuthenticationEnabled(false)
              .setCookieSpec(CookieSpecs.IGNORE_COOKIES)
              .build();
      PoolingHttpClientConnectionManager pool =
          new PoolingHttpClientConnectionManager(
              RegistryBuilder.<ConnectionSocketFactory>create()
                  .register("http", PlainConnectionSocketFactory.getSocketFactory())
                  .register("https", new SSLConnectionSocketFactory(trust(tlsCa)))
                  .build());
      pool.setDefaultMaxPerRoute(maxConnections);
      pool.setMaxTotal(maxConnections * users);
      pool.setValidateAfterInactivity(500);
      pool.setDefaultConnectionConfig(
          ConnectionConfig.custom()
              .setMessageConstraints(MessageConstraints.custom().setMaxHeaderCount(200).setMaxLineLength(16 << 10).build())
              .build());
      http =
          HttpClients.custom()
              .setConnectionManager(pool)
              .setDefaultRequestConfig(defaults)
              .disableAutomaticRetries()
              .disableRedirectHandling()
              .disableCookieManagement()
              .disableAuthCaching()
              .disableContentCompression()
              .setUserAgent("bursar-client-java")
              .build();
      ScheduledThreadPoolExecutor t =
          new ScheduledThreadPoolExecutor(
              1,
              r -> {
                Thread thread = new Thread(r, "bursar-client-timer");
                thread.setDaemon(true);
                return thread;
              });
      t.setRemoveOnCancelPolicy(true);
      timer = Executors.unconfigurableScheduledExecutorService(t);
    }

    /**
     * A server that sends a byte now and then never meets the socket's timeout: this ends the call.
     */
    ScheduledFuture<?> after(Duration time, Runnable what) throws IOException {
      try {
        return timer.schedule(what, time.toMillis(), TimeUnit.MILLISECONDS);
      } catch (RejectedExecutionException e) {
        throw new ConnectFailed("the client is closed", e);
      }
    }

    private static SSLContext trust(Path tlsCa) {
      try {
        if (tlsCa == null) {
          return SSLContexts.createDefault();
        }
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        int n = 0;
        try (InputStream in = Files.newInputStream(tlsCa)) {
          for (Certificate c : CertificateFactory.getInstance("X.509").generateCertificates(in)) {
            store.setCertificateEntry("ca" + n++, c);
          }
        }
        if (n == 0) {
          throw new IllegalArgumentException("tls ca " + tlsCa + ": it has no certificate: use a file in PEM");
        }
        return SSLContexts.custom().loadTrustMaterial(store, null).build();
      } catch (IOException | GeneralSecurityException e) {
        throw new IllegalArgumentException("tls ca " + tlsCa + ": " + e + ": use a file with certificates in PEM", e);
      }
    }

    synchronized void release() {
      if (--users > 0) {
        return;
      }
      timer.shutdownNow();
      try {
        http.close();
      } catch (IOException e) {
        // what is closed is of no more use
      }
    }
  }
}
