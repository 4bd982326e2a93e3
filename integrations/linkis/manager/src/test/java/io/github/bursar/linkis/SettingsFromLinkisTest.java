package io.github.bursar.linkis;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Test;

class SettingsFromLinkisTest {
  @Test
  void fromLinkissOwnConfiguration() {
    assertEquals(Settings.Mode.OFF, Settings.fromLinkis().mode(), "nothing is set");
    System.setProperty("linkis.bursar.mode", "shadow");
    System.setProperty("linkis.bursar.url", "http://127.0.0.1:7070");
    try {
      assertEquals(Settings.Mode.SHADOW, Settings.fromLinkis().mode());
      System.setProperty("linkis.bursar.wait", "1s");
      assertThrows(IllegalArgumentException.class, Settings::fromLinkis);
    } finally {
      System.clearProperty("linkis.bursar.mode");
      System.clearProperty("linkis.bursar.url");
      System.clearProperty("linkis.bursar.wait");
    }
  }
}
