package io.github.bursar.linkis.ecm;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;

/** The settings {@code linkis.bursar.*} that an ECM uses. A wrong one refuses the start. */
final class EcmSettings {
  static final String PREFIX = "linkis.bursar.";
  static final String MODE = PREFIX + "mode";
  static final String SOCKET = PREFIX + "agent.socket";
  static final String LAUNCH = PREFIX + "launch";
  // It has no effect any more: the agent keeps the output of the engines that it starts.
  static final String LAUNCH_DIR = PREFIX + "launch.dir";

  static final String DEFAULT_SOCKET = "/run/bursar/agent.sock";

  /** What a path of a Unix socket may have at most, in bytes: sun_path without its zero byte. */
  private static final int MAX_SOCKET_PATH = 107;

  /** Those of LinkisManager: linkis.properties is one file for all services. */
  private static final List<String> OF_THE_MANAGER =
      Collections.unmodifiableList(
          Arrays.asList(
              "url",
              "token.file",
              "tls.ca",
              "wait.max",
              "cpu.millis.per.core",
              "reservation.ttl",
              "host.map",
              "projector.interval",
              "labels.extra",
              "quota.import",
              "quota.interval"));

  /** Who decides: Linkis alone, Linkis with Bursar looking on, or Bursar. */
  enum Mode {
    OFF,
    SHADOW,
    ENFORCE
  }

  final Mode mode;
  final String socket;

  /** Whether the agent starts the engines. */
  final boolean launch;

  /** A setting that is wrong. The message names it, its value and what would be right. */
  static final class WrongSetting extends IllegalArgumentException {
    private static final long serialVersionUID = 1;

    WrongSetting(String name, String value, String want) {
      super(name + ": \"" + value + "\": want " + want);
    }
  }

  /**
   * @param properties all properties of the service; those without the prefix are passed over
   * @throws WrongSetting if one is unknown or wrong
   */
  EcmSettings(Map<String, String> properties) {
    TreeMap<String, String> ours = new TreeMap<>();
    TreeSet<String> known = new TreeSet<>(Arrays.asList(MODE, SOCKET, LAUNCH, LAUNCH_DIR));
    for (String name : OF_THE_MANAGER) {
      known.add(PREFIX + name);
    }
    for (Map.Entry<String, String> property : properties.entrySet()) {
      String name = property.getKey();
      if (!name.startsWith(PREFIX)) {
        continue;
      }
      if (!known.contains(name)) {
        throw new WrongSetting(name, property.getValue(), "one of " + String.join(", ", known));
      }
      ours.put(name, property.getValue().trim());
    }
    mode = mode(ours.getOrDefault(MODE, ""));
    socket = socket(ours.getOrDefault(SOCKET, ""));
    launch = bool(LAUNCH, ours.getOrDefault(LAUNCH, ""));
  }

  private static Mode mode(String value) {
    switch (value.toLowerCase(Locale.ROOT)) {
      case "":
      case "off":
        return Mode.OFF;
      case "shadow":
        return Mode.SHADOW;
      case "enforce":
        return Mode.ENFORCE;
      default:
        throw new WrongSetting(MODE, value, "off, shadow or enforce");
    }
  }

  private static String socket(String value) {
    if (value.isEmpty()) {
      return DEFAULT_SOCKET;
    }
    if (!value.startsWith("/")
        || value.indexOf('\0') >= 0
        || value.getBytes(StandardCharsets.UTF_8).length > MAX_SOCKET_PATH) {
      throw new WrongSetting(
          SOCKET,
          value,
          "the absolute path of the agent's Unix socket, of at most " + MAX_SOCKET_PATH + " bytes");
    }
    return value;
  }

  private static boolean bool(String name, String value) {
    switch (value.toLowerCase(Locale.ROOT)) {
      case "":
      case "false":
        return false;
      case "true":
        return true;
      default:
        throw new WrongSetting(name, value, "true or false");
    }
  }
}
