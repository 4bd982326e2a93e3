package io.github.bursar.linkis.ecm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.Map;
import org.apache.linkis.ecm.server.service.impl.DefaultEngineConnKillService;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.support.DefaultListableBeanFactory;
import org.springframework.beans.factory.support.RootBeanDefinition;

class EcmAutoConfigurationTest {
  private static DefaultListableBeanFactory linkis(String... names) {
    DefaultListableBeanFactory beans = new DefaultListableBeanFactory();
    for (String name : names) {
      beans.registerBeanDefinition(name, new RootBeanDefinition(Object.class));
    }
    return beans;
  }

  private static void replace(DefaultListableBeanFactory beans, String mode) {
    Map<String, String> properties = new HashMap<>();
    properties.put(EcmSettings.MODE, mode);
    new EcmAutoConfiguration.Replacement(new EcmSettings(properties)).postProcessBeanDefinitionRegistry(beans);
  }

  private static final String[] ALL = {EcmAutoConfiguration.LAUNCH, EcmAutoConfiguration.KILL, EcmAutoConfiguration.REGISTER};

  @Test
  void inEnforceOursAreInThePlaceOfLinkiss() {
    DefaultListableBeanFactory beans = linkis(ALL);
    replace(beans, "enforce");
    assertEquals(3, beans.getBeanDefinitionCount());
    assertEquals(BursarEngineConnLaunchService.class, beans.getType(EcmAutoConfiguration.LAUNCH));
    // as Linkis's messages are dispatched: by the class that has the method
    assertEquals(BursarEngineConnKillService.class, beans.getBean(DefaultEngineConnKillService.class).getClass());
    assertEquals(BursarEcmRegisterService.class, beans.getType(EcmAutoConfiguration.REGISTER));
  }

  @Test
  void theCommandLineOverridesFilesAsInTheManager() {
    java.util.Properties files = new java.util.Properties();
    files.setProperty(EcmSettings.MODE, "enforce");
    files.setProperty(EcmSettings.SOCKET, "/files");
    java.util.Properties commandLine = new java.util.Properties();
    commandLine.setProperty(EcmSettings.MODE, "off");
    Map<String, String> merged = EcmAutoConfiguration.merged(files, commandLine);
    assertEquals("off", merged.get(EcmSettings.MODE));
    assertEquals("/files", merged.get(EcmSettings.SOCKET));
  }

  @Test
  void elseLinkisIsAsItIs() {
    for (String mode : new String[] {"off", "shadow"}) {
      DefaultListableBeanFactory beans = linkis(ALL);
      replace(beans, mode);
      for (String name : ALL) {
        assertEquals(Object.class, beans.getType(name), name);
      }
    }
  }

  @Test
  void whatIsNotThereToReplaceRefusesTheStart() {
    DefaultListableBeanFactory beans = linkis(EcmAutoConfiguration.LAUNCH, EcmAutoConfiguration.KILL);
    String text = assertThrows(IllegalStateException.class, () -> replace(beans, "enforce")).getMessage();
    assertTrue(text.contains(EcmAutoConfiguration.REGISTER), text);
  }
}
