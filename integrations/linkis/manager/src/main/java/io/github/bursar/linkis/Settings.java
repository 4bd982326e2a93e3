package io.github.bursar.linkis;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.linkis.common.conf.BDPConfiguration;

/**
 * The settings {@code linkis.bursar.*} of Linkis's own properties files. What is wrong refuses the
 * start, with the setting, its value and what would be right.
 */
public final class Settings {
  /** Who decides. */
  public enum Mode {
    /** Stock Linkis, and nothing of Bursar runs. */
    OFF,
    /** Stock Linkis; what Bursar would have said is logged and counted. */
    SHADOW,
    /** Bursar. */
    ENFORCE
  }

  private static final String PREFIX = "linkis.bursar.";
  private static final Set<String> NAMES =
      new TreeSet<>(
          Arrays.asList(
              "url", "token.file", "tls.ca", "mode", "wait.max", "cpu.millis.per.core", "reservation.ttl", "host.map",
              "projector.interval", "labels.extra", "quota.import", "quota.interval", "agent.socket", "launch", "launch.dir"));
  private static final Pattern LABEL_KEY = Pattern.compile("[a-zA-Z][a-zA-Z0-9_./-]{0,62}");
  private static final Pattern HOST_ID = Pattern.compile("[a-zA-Z0-9][a-zA-Z0-9._:-]{0,252}");
  private static final Pattern DURATION = Pattern.compile("([0-9]{1,9})(ms|s|m|h|d)");

  private final Map<String, String> values;
  private final Mode mode;
  private final List<String> urls;
  private final Path tokenFile;
  private final Path tlsCa;
  private final Duration waitMax;
  private final int cpuMillisPerCore;
  private final Duration reservationTtl;
  private final Map<String, String> hostMap;
  private final Duration projectorInterval;
  private final boolean quotaImport;
  private final Duration quotaInterval;
  private final Map<String, String> extraConstants = new LinkedHashMap<>();
  private final List<String> extraFromLinkis = new ArrayList<>();

  private Settings(Map<String, String> values) {
    this.values = values;
    for (String name : values.keySet()) {
      if (!NAMES.contains(name)) {
        throw wrong(name, "there is no such setting: use one of " + NAMES);
      }
    }
    mode = parse("mode", "off", text -> Mode.valueOf(text.toUpperCase(Locale.ROOT)), "off, shadow or enforce");
    urls = list("url");
    if (mode != Mode.OFF && urls.isEmpty()) {
      throw wrong("url", "no coordinator is named: use URLs such as https://rm-1:7070, separated by commas");
    }
    tokenFile = file("token.file");
    tlsCa = file("tls.ca");
    waitMax = duration("wait.max", "10s", Duration.ZERO, Duration.ofMinutes(30));
    cpuMillisPerCore = parse("cpu.millis.per.core", "1000", text -> bounded(Integer.parseInt(text), 1, 1_000_000), "1 to 1000000");
    reservationTtl = duration("reservation.ttl", "12m", Duration.ofSeconds(1), Duration.ofHours(24));
    projectorInterval = duration("projector.interval", "2s", Duration.ofMillis(200), Duration.ofMinutes(5));
    quotaImport = parse("quota.import", "true", Settings::bool, "true or false");
    quotaInterval = duration("quota.interval", "30s", Duration.ofSeconds(1), Duration.ofHours(1));
    hostMap = hosts();
    extraLabels();
  }

  /** From Linkis's configuration: its files, and -D and environment where Linkis looks there. */
  public static Settings fromLinkis() {
    Map<String, String> values = new TreeMap<>();
    Properties all = new Properties();
    all.putAll(BDPConfiguration.properties());
    all.putAll(System.getProperties());
    for (String name : all.stringPropertyNames()) {
      if (name.startsWith(PREFIX)) {
        values.put(name.substring(PREFIX.length()), all.getProperty(name));
      }
    }
    for (String name : NAMES) { // also what Linkis finds elsewhere
      String value = BDPConfiguration.get(PREFIX + name, (String) null); // without this null it throws
      if (value != null && !values.containsKey(name)) {
        values.put(name, value);
      }
    }
    return of(values);
  }

  /** From names without "linkis.bursar." and values. */
  public static Settings of(Map<String, String> values) {
    Map<String, String> trimmed = new TreeMap<>();
    values.forEach((k, v) -> trimmed.put(k, v.trim()));
    return new Settings(Collections.unmodifiableMap(trimmed));
  }

  /** Who decides. */
  public Mode mode() {
    return mode;
  }

  /** The coordinators. */
  public List<String> urls() {
    return urls;
  }

  /** A file with the token for them. */
  public Optional<Path> tokenFile() {
    return Optional.ofNullable(tokenFile);
  }

  /** Certificates that sign theirs. */
  public Optional<Path> tlsCa() {
    return Optional.ofNullable(tlsCa);
  }

  /** How long a request waits for resources at most; zero: not at all. */
  public Duration waitMax() {
    return waitMax;
  }

  /** What one of Linkis's cores is, in thousandths of a core. */
  public int cpuMillisPerCore() {
    return cpuMillisPerCore;
  }

  /** How long a reservation holds until its engine runs. */
  public Duration reservationTtl() {
    return reservationTtl;
  }

  /** How often Linkis's rows are brought into step. */
  public Duration projectorInterval() {
    return projectorInterval;
  }

  /** Whether Linkis's configuration of what users may have is kept in step as quota rules. */
  public boolean quotaImport() {
    return quotaImport;
  }

  /** How often that is done. */
  public Duration quotaInterval() {
    return quotaInterval;
  }

  /** Bursar's hosts by an ECM's host, or by its host:port, if they have another name. */
  public Map<String, String> hostMap() {
    return hostMap;
  }

  /** Labels with a fixed value that every request has. */
  public Map<String, String> extraConstants() {
    return Collections.unmodifiableMap(extraConstants);
  }

  /** Keys of Linkis's labels that requests have if the engine has them. */
  public List<String> extraFromLinkis() {
    return Collections.unmodifiableList(extraFromLinkis);
  }

  private Map<String, String> hosts() {
    Map<String, String> map = new TreeMap<>();
    String want = "pairs such as ecm-1=host-a,10.0.0.7:9102=host-b";
    for (String pair : list("host.map")) {
      int at = pair.indexOf('=');
      String from = at < 0 ? "" : pair.substring(0, at).trim();
      String to = pair.substring(at + 1).trim();
      if (from.isEmpty() || !HOST_ID.matcher(to).matches()) {
        throw wrong("host.map", "\"" + pair + "\" is no pair: use " + want);
      }
      if (map.put(from, to) != null) {
        throw wrong("host.map", from + " is there twice: use " + want);
      }
    }
    return Collections.unmodifiableMap(map);
  }

  private void extraLabels() {
    for (String item : list("labels.extra")) {
      int at = item.indexOf('=');
      String key = (at < 0 ? item : item.substring(0, at)).trim();
      if (!LABEL_KEY.matcher(key).matches()) {
        throw wrong("labels.extra", "\"" + item + "\": use KEY=VALUE for a fixed label or KEY for a label of Linkis, separated by commas");
      }
      if (at < 0) {
        extraFromLinkis.add(key);
      } else {
        extraConstants.put(key, item.substring(at + 1).trim());
      }
    }
  }

  private Path file(String name) {
    String text = values.getOrDefault(name, "");
    if (text.isEmpty()) {
      return null;
    }
    Path p = Paths.get(text);
    if (!p.isAbsolute() || !Files.isReadable(p) || Files.isDirectory(p)) {
      throw wrong(name, "use the absolute path of a file that " + System.getProperty("user.name") + " can read");
    }
    return p;
  }

  private Duration duration(String name, String other, Duration least, Duration most) {
    return parse(
        name,
        other,
        text -> {
          Matcher m = DURATION.matcher(text);
          if (!m.matches()) {
            throw new IllegalArgumentException();
          }
          long n = Long.parseLong(m.group(1));
          Duration d;
          switch (m.group(2)) {
            case "ms":
              d = Duration.ofMillis(n);
              break;
            case "s":
              d = Duration.ofSeconds(n);
              break;
            case "m":
              d = Duration.ofMinutes(n);
              break;
            case "h":
              d = Duration.ofHours(n);
              break;
            default:
              d = Duration.ofDays(n);
          }
          if (d.compareTo(least) < 0 || d.compareTo(most) > 0) {
            throw new IllegalArgumentException();
          }
          return d;
        },
        "a time such as 500ms, 10s, 5m or 1h, from " + words(least) + " to " + words(most));
  }

  private static String words(Duration d) {
    return d.toMillis() % 1000 != 0 ? d.toMillis() + "ms" : d.getSeconds() + "s";
  }

  private List<String> list(String name) {
    List<String> l = new ArrayList<>();
    for (String item : values.getOrDefault(name, "").split(",")) {
      if (!item.trim().isEmpty()) {
        l.add(item.trim());
      }
    }
    return Collections.unmodifiableList(l);
  }

  private <T> T parse(String name, String other, Function<String, T> parser, String want) {
    String text = values.getOrDefault(name, "");
    try {
      return parser.apply(text.isEmpty() ? other : text);
    } catch (IllegalArgumentException e) {
      throw wrong(name, "use " + want);
    }
  }

  private static boolean bool(String text) {
    if (!text.equals("true") && !text.equals("false")) {
      throw new IllegalArgumentException();
    }
    return text.equals("true");
  }

  private static int bounded(int n, int least, int most) {
    if (n < least || n > most) {
      throw new IllegalArgumentException();
    }
    return n;
  }

  private IllegalArgumentException wrong(String name, String why) {
    // A URL may hold a password.
    String value = values.getOrDefault(name, "").replaceAll("//[^/,]*@", "//…@");
    return new IllegalArgumentException(PREFIX + name + " is \"" + value + "\": " + why);
  }
}
