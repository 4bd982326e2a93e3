package io.github.bursar.linkis;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SettingsTest {
  private static Settings of(String... pairs) {
    Map<String, String> m = new HashMap<>();
    m.put("url", "http://127.0.0.1:7070");
    for (int i = 0; i < pairs.length; i += 2) {
      m.put(pairs[i], pairs[i + 1]);
    }
    return Settings.of(m);
  }

  @Test
  void nothingIsOff() {
    Settings s = Settings.of(Map.of());
    assertEquals(Settings.Mode.OFF, s.mode());
    assertEquals(Duration.ofSeconds(10), s.waitMax());
    assertEquals(1000, s.cpuMillisPerCore());
    assertEquals(Duration.ofMinutes(12), s.reservationTtl());
    assertEquals(Duration.ofSeconds(2), s.projectorInterval());
  }

  @Test
  void allOfThem(@TempDir Path dir) throws Exception {
    Path token = Files.writeString(dir.resolve("token"), "x");
    Settings s = of("url", "https://a:7070, https://b:7070", "mode", "Enforce", "token.file", token.toString(), "wait.max", "1m",
        "cpu.millis.per.core", "250", "reservation.ttl", "90s", "host.map", "ecm-1=host-a, 10.0.0.7:9102=host-b",
        "projector.interval", "500ms", "labels.extra", "cluster=prod,codeType", "agent.socket", "/run/x", "launch", "true", "launch.dir", "/run");
    assertEquals(List.of("https://a:7070", "https://b:7070"), s.urls());
    assertEquals(Settings.Mode.ENFORCE, s.mode());
    assertEquals(token, s.tokenFile().get());
    assertEquals(Duration.ofMinutes(1), s.waitMax());
    assertEquals(250, s.cpuMillisPerCore());
    assertEquals(Map.of("ecm-1", "host-a", "10.0.0.7:9102", "host-b"), s.hostMap());
    assertEquals(Duration.ofMillis(500), s.projectorInterval());
    assertEquals(Map.of("cluster", "prod"), s.extraConstants());
    assertEquals(List.of("codeType"), s.extraFromLinkis());
  }

  @Test
  void quotasAreImportedUnlessThatIsNotWanted() {
    assertTrue(of("mode", "enforce").quotaImport());
    assertFalse(of("mode", "enforce", "quota.import", "false").quotaImport());
    assertTrue(of("mode", "shadow").quotaImport());
    assertEquals(Duration.ofSeconds(30), of().quotaInterval());
  }

  @Test
  void whatIsWrongNamesTheSettingTheValueAndWhatWouldBeRight() {
    String[][] wrong = {
      {"mode", "on", "off, shadow or enforce"},
      {"wait.max", "soon", "500ms, 10s, 5m"},
      {"wait.max", "31m", "1800s"},
      {"cpu.millis.per.core", "0", "1 to 1000000"},
      {"cpu.millis.per.core", "99999999999", "1 to 1000000"},
      {"reservation.ttl", "100ms", "1s"},
      {"projector.interval", "1ms", "200ms"},
      {"quota.import", "yes", "true or false"},
      {"quota.interval", "100ms", "1s to 3600s"},
      {"host.map", "a", "ecm-1=host-a"},
      {"host.map", "a=b,a=c", "twice"},
      {"host.map", "a=../b", "ecm-1=host-a"},
      {"labels.extra", "9x=1", "KEY=VALUE"},
      {"token.file", "relative", "absolute"},
      {"token.file", "/no/such/file", "can read"},
      {"tls.ca", "/", "can read"},
      {"urls", "x", "there is no such setting"},
    };
    for (String[] w : wrong) {
      IllegalArgumentException e = assertThrows(IllegalArgumentException.class, () -> of(w[0], w[1]), w[0]);
      assertTrue(e.getMessage().startsWith("linkis.bursar." + w[0] + " is \"" + w[1] + "\""), e.getMessage());
      assertTrue(e.getMessage().contains(w[2]), e.getMessage());
    }
    assertThrows(IllegalArgumentException.class, () -> Settings.of(Map.of("mode", "shadow")));
    IllegalArgumentException e = assertThrows(IllegalArgumentException.class, () -> of("url", "http://u:secret@h", "nonsense", "1"));
    assertFalse(e.getMessage().contains("secret"));
  }
}
