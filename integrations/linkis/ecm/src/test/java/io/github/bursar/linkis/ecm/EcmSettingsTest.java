package io.github.bursar.linkis.ecm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;

class EcmSettingsTest {
  private static EcmSettings settings(String... pairs) {
    Map<String, String> properties = new HashMap<>();
    for (int i = 0; i < pairs.length; i += 2) {
      properties.put(pairs[i], pairs[i + 1]);
    }
    return new EcmSettings(properties);
  }

  private static String refusal(String... pairs) {
    return assertThrows(EcmSettings.WrongSetting.class, () -> settings(pairs)).getMessage();
  }

  @Test
  void withoutSettingsLinkisIsAsItIs() {
    EcmSettings none = settings("wds.linkis.ecm.memory.max", "100g");
    assertEquals(EcmSettings.Mode.OFF, none.mode);
    assertEquals("/run/bursar/agent.sock", none.socket);
    assertFalse(none.launch);
  }

  @Test
  void settingsAreRead() {
    EcmSettings all =
        settings("linkis.bursar.mode", "Enforce ", "linkis.bursar.agent.socket", "/tmp/a.sock", "linkis.bursar.launch", "true",
            "linkis.bursar.launch.dir", "/var/lib/ecm",
            "linkis.bursar.url", "http://127.0.0.1:7070");
    assertEquals(EcmSettings.Mode.ENFORCE, all.mode);
    assertEquals("/tmp/a.sock", all.socket);
    assertTrue(all.launch);
  }

  @Test
  void theManagersSettingsAreKnownHere() throws Exception {
    // one linkis.properties is for all services
    String manager =
        new String(
            java.nio.file.Files.readAllBytes(
                java.nio.file.Paths.get("../manager/src/main/java/io/github/bursar/linkis/Settings.java")),
            java.nio.charset.StandardCharsets.UTF_8);
    String names = manager.substring(manager.indexOf("NAMES ="), manager.indexOf("LABEL_KEY ="));
    java.util.regex.Matcher name = java.util.regex.Pattern.compile("\"([a-z.]+)\"").matcher(names);
    int n = 0;
    for (; name.find(); n++) {
      String value = name.group(1).equals("mode") ? "off" : name.group(1).equals("launch") ? "true" : "/x";
      settings("linkis.bursar." + name.group(1), value);
    }
    assertTrue(n >= 12, "found " + n);
  }

  @Test
  void wrongOnesAreRefusedByNameAndValue() {
    assertEquals("linkis.bursar.mode: \"on\": want off, shadow or enforce", refusal("linkis.bursar.mode", "on"));
    assertEquals("linkis.bursar.launch: \"yes\": want true or false", refusal("linkis.bursar.launch", "yes"));
    assertTrue(refusal("linkis.bursar.agent.socket", "agent.sock").startsWith("linkis.bursar.agent.socket: \"agent.sock\": want the absolute path"));
    assertTrue(refusal("linkis.bursar.agent.socket", "/" + new String(new char[107]).replace('\0', 'a')).contains("at most 107 bytes"));
    assertTrue(refusal("linkis.bursar.agnet.socket", "/a").startsWith("linkis.bursar.agnet.socket: \"/a\": want one of linkis.bursar.agent.socket, "));
  }
}
